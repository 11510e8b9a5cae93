package sqlstore

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// selection is a query that is put together from parts.
type selection struct {
	Query
	args []any
}

// add adds a part, whose parameters $1, $2 and so on are the values.
func (q *selection) add(part *Query, values ...any) {
	q.SQLite += shifted(part.SQLite, len(q.args))
	q.Postgres += shifted(part.Postgres, len(q.args))
	q.args = append(q.args, values...)
}

var parameter = regexp.MustCompile(`\$\d+`)

// shifted returns a text whose parameters are those that come after others.
func shifted(text string, others int) string {
	if others == 0 {
		return text
	}
	return parameter.ReplaceAllStringFunc(text, func(p string) string {
		n, _ := strconv.Atoi(p[1:])
		return "$" + strconv.Itoa(n+others)
	})
}

var kept sync.Map // by their texts for SQLite

// query returns the query. One of few is kept, so that it is prepared once.
func (q *selection) query(few bool) *Query {
	if !few {
		q.Unprepared = true
		return &q.Query
	}
	one, known := kept.Load(q.SQLite)
	if !known {
		one, _ = kept.LoadOrStore(q.SQLite, &Query{SQLite: q.SQLite, Postgres: q.Postgres}) // without the values
	}
	return one.(*Query)
}

// pattern returns a pattern of LIKE, with the backslash as its escape character, for what contains
// the text.
func pattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// jsonPattern is [pattern] for texts within JSON.
func jsonPattern(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("store: a text has no JSON form: " + err.Error())
	}
	return pattern(string(quoted[1 : len(quoted)-1]))
}
