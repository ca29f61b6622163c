package rowstream

// SetLimit lowers the largest tuple.
func (r *Reader) SetLimit(n int) { r.frame.limit = n }

// SetLimit lowers the largest tuple.
func (s *Splitter) SetLimit(n int) { s.frame.limit = n }

// SetLarge lowers the size that leave is asked for.
func (s *Splitter) SetLarge(n int) { s.large = n }
