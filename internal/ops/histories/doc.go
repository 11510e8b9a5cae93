// Package histories deletes what Temporal keeps of threads: the runs of their workflows with their histories and their
// entries in visibility, and the schedules that post to them.
//
// A run is found in three ways, since none has all of them: by the id of its workflow in visibility, which lags; by the
// chain of runs that continued as new, which the history of each run names; and by the children that a history has started.
package histories
