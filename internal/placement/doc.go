// Package placement asks a server which partition of a table PARTITION BY HASH keys
// fall into: where rows belong, by nobody's word but PostgreSQL's. It is for those who
// judge what shardctl did, and shares no code with it.
package placement
