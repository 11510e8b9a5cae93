// Package job has what is exchanged with the workflows beside those of threads: the erasure of threads and people, the ingestion of documents, the
// search for entities, retention, the runs of schedules, and the limits of model providers.
package job
