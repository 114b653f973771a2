// Package ping synchronizes clocks by request and response, where datagrams cannot
// be stamped.
package ping
