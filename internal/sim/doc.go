// Package sim measures accuracy in the worlds of package simnet. Run lets two ends exchange
// TimeSync's datagrams and asks any number of estimators, which all see identical packets, for the
// other end's clock; it knows the answer.
//
// What travels is plain integers. Of package timesync only Core knows, which is its synchronizer
// as an Estimator. What the synchronizer makes of these worlds is proven in internal/simtest; the
// tests here are those of the exchange.
package sim
