// Package rowstream splits the stream of a COPY … TO STDOUT into raw tuples and
// puts tuples together again for COPY … FROM STDIN, in binary or text form,
// without decoding what need not be: a field's bytes pass from one server to
// another untouched, and only fields that route a row are ever looked at.
//
// It owns the framing of both formats. It holds no SQL, knows no types and opens
// no connection.
//
// Invariants: a tuple that comes out is complete; a stream that ends in the
// middle of one, or without the trailer its format has, is an error and never an
// end. Memory is one tuple (at most MaxTuple) plus one read buffer; the room that
// a very large tuple needed is given back after it. Nothing is allocated for a
// tuple of ordinary size.
//
// Killed: it has no state outside the process.
package rowstream
