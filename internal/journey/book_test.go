package journey

// A book is what one writer was told: the newest acknowledged state of each of its
// rows. Only its writer touches it, or whoever made all writers rest.
type book struct {
	blocks   []*block
	comments []*comment
	plans    []*plan
}

// block is a row of block, with the comments on it. States are the row's values as
// the server writes them.
type block struct {
	id, workspace string
	state         string
	comments      []*comment
	at            int // in book.blocks
	seen          int // how often the comparison found it
}

type comment struct {
	id    int64
	state string
	on    *block
	at    int // in book.comments
	seen  int
}

type plan struct {
	id    int64
	state string
	kept  bool // blocks refer to it: never deleted
	seen  int
}

func (b *book) addBlock(n *block) {
	n.at = len(b.blocks)
	b.blocks = append(b.blocks, n)
}

func (b *book) addComment(n *comment) {
	n.at = len(b.comments)
	b.comments = append(b.comments, n)
	n.on.comments = append(n.on.comments, n)
}

// dropBlock forgets a block and, as the foreign key does, the comments on it.
func (b *book) dropBlock(n *block) {
	for len(n.comments) > 0 {
		b.dropComment(n.comments[len(n.comments)-1])
	}
	last := b.blocks[len(b.blocks)-1]
	last.at = n.at
	b.blocks[n.at] = last
	b.blocks = b.blocks[:len(b.blocks)-1]
}

func (b *book) dropComment(n *comment) {
	last := b.comments[len(b.comments)-1]
	last.at = n.at
	b.comments[n.at] = last
	b.comments = b.comments[:len(b.comments)-1]
	n.leave()
}

// leave takes a comment off its block.
func (n *comment) leave() {
	for i, c := range n.on.comments {
		if c == n {
			n.on.comments = append(n.on.comments[:i], n.on.comments[i+1:]...)
			return
		}
	}
}

// move puts a comment on another block.
func (n *comment) move(to *block) {
	n.leave()
	n.on = to
	to.comments = append(to.comments, n)
}
