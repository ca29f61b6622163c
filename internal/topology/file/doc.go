// Package file drives clients that read the topology from a JSON document in a file
// and follow its changes.
//
// The document is topology.Topology. It is replaced as a whole, under a lock, by one
// whose epoch is not earlier. Nobody can be held by a file: Pause and Resume do
// nothing, and clients that lag behind are refused by the fences until they read the
// file again. Used together with a pooler it only tells where things are.
package file
