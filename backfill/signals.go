package backfill

// Signals are control points for tests of how a copy and other processes meet: a
// function is called where its name says, and the copy goes on when it returns.
// Production sets none.
type Signals struct {
	Noted     func(Chunk)         // the note is committed, no snapshot is open
	Opened    func(Chunk)         // the snapshot is open and checked, nothing is copied out
	Before    func(Chunk, string) // before the transaction on a database
	Judged    func(Chunk, string) // in it, when it is known which rows are dropped
	Committed func(Chunk, string) // after it
	Building  func(string)        // before a fast database's keys are built
	Pages     int64               // of every chunk; 0: as measured
	Version   int                 // that the source is taken to have; 0: its own
}

func (s Signals) at(f func(Chunk), c Chunk) {
	if f != nil {
		f(c)
	}
}

func (s Signals) on(f func(Chunk, string), c Chunk, database string) {
	if f != nil {
		f(c, database)
	}
}
