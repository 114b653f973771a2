// SPDX-License-Identifier: BSD-3-Clause

// Package testkit is what the tests of all packages share: how much to test in short and long
// runs, quantiles and other summaries of measurements, and waiting for a program that runs beside
// a test. It imports the standard library only, so that any test can import it.
package testkit
