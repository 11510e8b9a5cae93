// Package tracing carries trace contexts between requests, posts, workflows and steps. Package telemetry configures
// with it what is recorded.
package tracing
