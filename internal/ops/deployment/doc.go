// Package deployment knows which builds of the workers run which threads.
//
// A build of the workers is a version of a Temporal Worker Deployment, and every run of a thread is pinned to one. Temporal
// decides by the deployment's routing (the current build, and a share of threads for a ramping one) which build a thread
// belongs on. A thread that belongs on another build continues as new there, when a workflow task tells it so: a busy one
// at its next step, an idle one when it is woken.
package deployment
