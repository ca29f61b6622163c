// Package drivers makes the routers that a spec names. It is the one place that knows
// every driver, and holds nothing.
package drivers
