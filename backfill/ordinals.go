package backfill

import (
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// ordinals reads the next result of a pipeline: one bigint a row, counted from 1
// there and from 0 here.
func ordinals(pipe *pgconn.Pipeline) ([]int, error) {
	results, err := pipe.GetResults()
	if err != nil {
		return nil, err
	}
	rows, ok := results.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("a result was expected, not %T", results)
	}
	var out []int
	for rows.NextRow() {
		out = append(out, int(int64(binary.BigEndian.Uint64(rows.Values()[0])))-1)
	}
	_, err = rows.Close()
	return out, err
}

// binaryFormats says that n values are in binary form.
func binaryFormats(n int) []int16 {
	out := make([]int16, n)
	for i := range out {
		out[i] = 1
	}
	return out
}
