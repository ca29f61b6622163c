package journey

// choices are the requests of the application with their weights.
var choices = []struct {
	weight int
	draw   func(*writer) *request
}{
	{14, (*writer).insertPage},
	{28, (*writer).updateBlock},
	{4, (*writer).deleteBlock},
	{5, (*writer).changeKey},
	{3, (*writer).reinsert},
	{2, (*writer).rekeyBlock},
	{12, (*writer).insertComment},
	{6, (*writer).updateComment},
	{4, (*writer).deleteComment},
	{3, (*writer).moveComment},
	{2, (*writer).renumberComment},
	{8, (*writer).mixed},
	{2, (*writer).changeMind},
	{4, (*writer).readBack},
	{5, (*writer).writePlan},
}

// draw picks a request; one that its rows do not allow becomes an insert.
func (x *writer) draw() *request {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := x.random.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			if r := c.draw(x); r != nil {
				return r
			}
			break
		}
	}
	return x.insertPage()
}

// hot is how many of the newest rows get half of the requests, so that rows are
// written again while their last write is under way.
const hot = 50

func (x *writer) someBlock() *block {
	n := len(x.blocks)
	switch {
	case n == 0:
		return nil
	case n > hot && x.random.IntN(2) == 0:
		return x.blocks[n-1-x.random.IntN(hot)]
	}
	return x.blocks[x.random.IntN(n)]
}

func (x *writer) someComment() *comment {
	if len(x.comments) == 0 {
		return nil
	}
	return x.comments[x.random.IntN(len(x.comments))]
}

// otherWorkspace is one that a row may move to; "" if there is none.
func (x *writer) otherWorkspace(from string) string {
	for range 2 * len(x.workspaces) {
		to := x.workspaces[x.random.IntN(len(x.workspaces))]
		if to != from && (!x.sameShard || x.places[to] == x.places[from]) {
			return to
		}
	}
	return ""
}

// otherBlock is one that a comment may move to; nil if none was found.
func (x *writer) otherBlock(from *block) *block {
	for range 50 {
		to := x.someBlock()
		if to != from && (!x.sameShard || x.places[to.workspace] == x.places[from.workspace]) {
			return to
		}
	}
	return nil
}

// amounts have several texts for one number.
var amounts = []any{nil, "1.0", "1.00", "NaN", "-0.5", "12345678901234567890.000001"}

func (x *writer) amount() any { return amounts[x.random.IntN(len(amounts))] }

var tagLists = []any{nil, "{}", `{a,"b,c",NULL,"NULL"}`, `{"\"quoted\"","back\\slash",é}`}

func (x *writer) tags() any { return tagLists[x.random.IntN(len(tagLists))] }
