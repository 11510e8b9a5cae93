// Package localsteps tests what happens to steps that run as local activities, within the workflow task of their thread,
// when their worker fails or stops and when something arrives meanwhile.
package localsteps
