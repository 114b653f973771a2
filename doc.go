// Package timesync lets two peers that exchange datagrams agree on time.
//
// Every authenticated datagram carries a 3-byte stamp and is a probe; now and
// then each side reports its minimum delta in 3 more bytes. Both then know the
// offset between their clocks, the one-way delay of every datagram, and can put
// timestamps of 2 or 3 bytes into payloads that mean the same instant on both
// machines. It speaks the wire format of Christopher Taylor's TimeSync.
package timesync
