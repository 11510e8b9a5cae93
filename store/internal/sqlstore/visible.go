package sqlstore

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/store"
)

// What viewers see of a message depends on what hooks have decided on it, which is in records of their own: the decision, and the
// withdrawal of the message. r is a record of a message or of a hook, h one that decides on it.
var (
	// visible selects the messages that viewers see, and whose content a condition selects: records of messages on which hooks have
	// not decided otherwise, and those in the records of decisions.
	visible = &Query{
		SQLite: decided(`CASE r.type WHEN 'hook' THEN json_extract(r.payload, '$.outcome') IN ('passed', 'replaced')
				AND json_extract(r.payload, '$.message.content') %[1]s
			ELSE json_extract(r.payload, '$.content') %[1]s
				AND json_extract(r.payload, '$.held') IS NULL AND NOT EXISTS (
				SELECT 1 FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id
				AND h.id IN (r.id || 'DECISION', r.id || 'WITHDRAWAL') AND h.type = 'hook'
				AND (json_extract(h.payload, '$.outcome') <> 'passed' OR json_extract(h.payload, '$.message') IS NOT NULL)) END`),
		Postgres: decided(`CASE r.type WHEN 'hook' THEN (` + ofRecord + `->'outcome')::text IN ('"passed"', '"replaced"')
				AND (` + ofRecord + `->'message'->'content')::text %[1]s
			ELSE (` + ofRecord + `->'content')::text %[1]s AND ` + ofRecord + `->'held' IS NULL AND NOT EXISTS (
				SELECT 1 FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id
				AND h.id IN (r.id || 'DECISION', r.id || 'WITHDRAWAL') AND h.type = 'hook'
				AND ((` + ofDecision + `->'outcome')::text <> '"passed"' OR ` + ofDecision + `->'message' IS NOT NULL)) END`),
	}

	// firstMessages reads the beginnings of the first messages that hooks do not hide. In the record of a decision, only a message
	// that replaces the stored one counts. A held message needs a decision that shows it, and one that awaits a decision is not shown.
	// Records are looked up by id one after another: see recordsByID.
	firstMessages = &Query{
		SQLite: decided(fmt.Sprintf(`SELECT value, (SELECT substr(CASE r.type WHEN 'hook' THEN r.payload -> '$.message.content' ELSE r.payload -> '$.content' END, 1, %d)
			FROM records r WHERE r.namespace = $1 AND r.thread_id = value AND r.seq <= %d AND r.type IN ('message', 'hook') AND CASE r.type
			WHEN 'hook' THEN r.payload ->> '$.outcome' = 'replaced' AND r.payload ->> '$.message.senderType' IN ('user', 'agent')
				AND length(r.payload -> '$.message.content') > 2
				AND (SELECT 1 FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = replace(r.id, 'DECISION', 'WITHDRAWAL')) IS NULL
			ELSE r.payload ->> '$.senderType' IN ('user', 'agent') AND length(r.payload -> '$.content') > 2
				AND (SELECT 1 FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = r.id || 'WITHDRAWAL') IS NULL
				AND coalesce((SELECT h.payload ->> '$.outcome' IS 'passed' AND (r.payload -> '$.held' IS NULL OR h.payload -> '$.message' IS NOT NULL)
					FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = r.id || 'DECISION' AND h.type = 'hook'),
					r.payload -> '$.held' IS NULL AND coalesce(r.payload -> '$.undecided', '') NOT LIKE '%%"message"%%') END
			ORDER BY r.seq LIMIT 1) FROM json_each($2)`, previewJSON, store.PreviewRecords)),
		Postgres: decided(fmt.Sprintf(`SELECT thread, (SELECT left((CASE r.type WHEN 'hook' THEN `+ofRecord+`->'message'->'content' ELSE `+ofRecord+`->'content' END)::text, %d)
			FROM records r WHERE r.namespace = $1 AND r.thread_id = thread AND r.seq <= %d AND r.type IN ('message', 'hook') AND CASE r.type
			WHEN 'hook' THEN (`+ofRecord+`->'outcome')::text = '"replaced"' AND (`+ofRecord+`->'message'->'senderType')::text IN ('"user"', '"agent"')
				AND length((`+ofRecord+`->'message'->'content')::text) > 2
				AND (SELECT h.seq FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = replace(r.id, 'DECISION', 'WITHDRAWAL')) IS NULL
			ELSE (`+ofRecord+`->'senderType')::text IN ('"user"', '"agent"') AND length((`+ofRecord+`->'content')::text) > 2
				AND (SELECT h.seq FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = r.id || 'WITHDRAWAL') IS NULL
				AND coalesce((SELECT coalesce((`+ofDecision+`->'outcome')::text, '') = '"passed"' AND (`+ofRecord+`->'held' IS NULL OR `+ofDecision+`->'message' IS NOT NULL)
					FROM records h WHERE h.namespace = r.namespace AND h.thread_id = r.thread_id AND h.id = r.id || 'DECISION' AND h.type = 'hook'),
					`+ofRecord+`->'held' IS NULL AND coalesce((`+ofRecord+`->'undecided')::text, '') NOT LIKE '%%"message"%%') END
			ORDER BY r.seq LIMIT 1) FROM unnest($2::text[]) AS thread`, previewJSON, store.PreviewRecords)),
	}
)

// ofRecord and ofDecision are payloads in PostgreSQL without NUL characters, since a field of JSON with one cannot be read.
const (
	ofRecord   = `(replace(r.payload::text, '\u0000', '\ufffd')::json)`
	ofDecision = `(replace(h.payload::text, '\u0000', '\ufffd')::json)`
)

// decided writes what follows the id of a message in those of its decision and its withdrawal into a text.
func decided(text string) string {
	return strings.NewReplacer("DECISION", recordid.Interception(""), "WITHDRAWAL", recordid.Withdrawal("")).Replace(text)
}
