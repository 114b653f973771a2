// Package simtest has no code but its tests: they prove what the synchronizer of package timesync
// does in the simulated worlds of internal/sim.
package simtest
