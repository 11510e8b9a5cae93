package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Parts of a run.
const (
	partThroughput = "throughput"
	partAging      = "aging"
	partToken      = "token"
	partBurst      = "burst"
	partFlood      = "flood"
	partQuality    = "quality"
	partSearch     = "search"
	partPassages   = "passages"
	partTelemetry  = "telemetry"
	partCost       = "cost"
	partAnswers    = "answers"
)

// The parts of a run without -parts.
var (
	runtimeParts   = []string{partThroughput, partCost, partAging, partToken, partAnswers, partBurst, partFlood, partTelemetry}
	knowledgeParts = []string{partQuality, partSearch, partPassages}
)

// way is how a message reaches a thread, and how its sender learns of the end of its turn.
type way string

const (
	// bySignal reports the end to Threadmill's client as a server-sent event, and to the bare
	// loop's by a channel in the process.
	bySignal way = "signal"
	// byUpdate reports the end as the update's result.
	byUpdate way = "update"
	// byGo is Runtime.Send, which waits for the end. For the bare loop it is an update.
	byGo way = "go"
	// byHTTP is the protocol of the AI SDK for Threadmill: the end is that of the stream of the
	// response. For the bare loop it is an update. Replies have longReply tokens.
	byHTTP way = "http"
)

// steps is how both sides run the steps of their turns.
type steps string

const (
	// asLocal runs those that are quick as local activities: the bare loop all of them.
	asLocal steps = "local"
	// asActivities runs each as an activity.
	asActivities steps = "activities"
)

// Options of a run.
type Options struct {
	// Parts, Shapes and Ways select the measurements.
	Parts  []string `json:"parts"`
	Shapes []string `json:"shapes"`
	Steps  []steps  `json:"steps"`
	Ways   []way    `json:"ways"`

	// Threads are the numbers of concurrent threads, Turns the number of timed turns in a round for
	// each of them.
	Threads []int `json:"threads"`
	Turns   []int `json:"turns"`

	// Rounds is the number of pairs of rounds, one on each side.
	Rounds int `json:"rounds"`

	// Viewer adds a viewer over server-sent events to each Threadmill thread.
	Viewer bool `json:"viewer"`

	// Pairs is the number of comparisons of an old thread's turn (190) with a young one's (10).
	Pairs int `json:"pairs"`
	Old   int `json:"old"`

	// Tokens is the number of first tokens that are timed, once beside idle threads and once while
	// TokenThreads others are busy.
	Tokens       int `json:"tokens"`
	TokenThreads int `json:"tokenThreads"`

	// Answers is the number of answers that are timed at each door.
	Answers int `json:"answers"`

	Burst BurstOptions `json:"burst"`

	// Flooded is the number of threads of another namespace to which Burst.Rate messages a second are offered.
	Flooded int `json:"flooded"`

	Knowledge KnowledgeOptions `json:"knowledge"`

	DatabaseURL string `json:"-"`
	NATSURL     string `json:"-"`
	Memory      bool   `json:"memory"`

	// Gate is a file with figures of the part cost that a run must not exceed. Update replaces them.
	Gate   string `json:"-"`
	Update bool   `json:"-"`

	// apart runs Temporal in a process of its own.
	apart    bool
	JSON     string `json:"-"`
	Profiles string `json:"-"`
}

// BurstOptions describe a burst of events and the concurrent threads.
type BurstOptions struct {
	// Rate is the number of events in each of Seconds, over this number of Connections.
	Rate        int `json:"rate"`
	Seconds     int `json:"seconds"`
	Connections int `json:"connections"`

	// Threads is the number of threads that take turns meanwhile.
	Threads int `json:"threads"`
}

// KnowledgeOptions describe the documents that are searched.
type KnowledgeOptions struct {
	// BEIR is a folder with a set of passages and questions in BEIR's format, besides the project's own.
	BEIR string `json:"beir,omitempty"`

	// Embedder, "provider/model", has the vectors whose quality is measured. BaseURL is the address of its provider.
	Embedder string `json:"embedder,omitempty"`
	BaseURL  string `json:"-"`

	// RerankModel, "provider/model", orders what the searches have found, whose quality is measured too. RerankURL is the address
	// of its provider.
	RerankModel string `json:"rerankModel,omitempty"`
	RerankURL   string `json:"-"`

	// Chunks is the number of chunks in which Searches of each kind are timed.
	Chunks   int `json:"chunks"`
	Searches int `json:"searches"`

	// Documents is the number of documents of the agent that is given passages.
	Documents int `json:"documents"`
}

func parse(args []string, usage io.Writer) (Options, error) {
	var o Options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(usage)
	parts := f.String("parts", strings.Join(runtimeParts, ","), "what to measure")
	documents := f.Bool("knowledge", false, "measure documents: -parts "+strings.Join(knowledgeParts, ","))
	names := f.String("shapes", "plain,tool,approval", "turns: "+shapeHelp())
	ways := f.String("ways", "go,http", "how messages come in: go, http, update, signal")
	how := f.String("steps", "local,activities", "how both sides run steps: as local activities, those that are quick; as activities, all")
	threads := f.String("threads", "1,10,50", "how many threads are busy at once")
	turns := f.String("turns", "200,300,500", "how many turns a round has in all, for each number of threads")
	f.IntVar(&o.Rounds, "rounds", 3, "how many pairs of rounds")
	f.BoolVar(&o.Viewer, "viewer", true, "watch each Threadmill thread over server-sent events; without, signals are not measured, and only requests for approval are watched")
	f.IntVar(&o.Pairs, "pairs", 4, "how many old and young threads")
	f.IntVar(&o.Old, "old", 190, "the turn of an old thread that is compared with turn 10, at least 20")
	f.IntVar(&o.Tokens, "tokens", 500, "how many first tokens to time, each time")
	f.IntVar(&o.TokenThreads, "token-threads", 50, "how many other threads are busy while first tokens are timed again")
	f.IntVar(&o.Answers, "answers", 40, "how many answers to time, of each kind")
	f.IntVar(&o.Burst.Rate, "burst-rate", 1000, "how many events a second a burst has, all for one thread")
	f.IntVar(&o.Burst.Seconds, "burst-seconds", 10, "how long a burst takes")
	f.IntVar(&o.Burst.Connections, "burst-connections", 200, "from how many connections a burst comes")
	f.IntVar(&o.Burst.Threads, "burst-threads", 4, "how many other threads are busy during a burst")
	f.IntVar(&o.Flooded, "flooded", 50, "to how many threads of another namespace a flood of messages is offered, with the rate, seconds and connections of a burst")
	f.StringVar(&o.Knowledge.BEIR, "beir", "", "a folder with a data set in BEIR's format, such as SciFact, to measure the quality of searches with")
	f.StringVar(&o.Knowledge.Embedder, "embedder", "", "openai/<model> or google/<model>: the embedder to measure the quality of hybrid searches with; "+
		"its key is in OPENAI_API_KEY or GEMINI_API_KEY")
	f.StringVar(&o.Knowledge.BaseURL, "base-url", "", "the address of the embedder (default: the provider's own)")
	f.StringVar(&o.Knowledge.RerankModel, "rerank-model", "", "openai/<model> or google/<model>: the model to measure the quality of reranked searches with")
	f.StringVar(&o.Knowledge.RerankURL, "rerank-base-url", "", "the address of the reranking model, which has the endpoint /rerank (default: the provider's own, in a chat)")
	f.IntVar(&o.Knowledge.Chunks, "chunks", 100_000, "in how many chunks to search")
	f.IntVar(&o.Knowledge.Searches, "searches", 100, "how many searches of each kind to time")
	f.IntVar(&o.Knowledge.Documents, "documents", 300, "how many documents the agent has that is given passages, at least 2")
	f.StringVar(&o.DatabaseURL, "database-url", "", "a PostgreSQL for the store, in a schema of its own (default: SQLite on disk; "+
		"quality and search are measured in both, and find a PostgreSQL as tests do)")
	f.StringVar(&o.NATSURL, "nats-url", "", "a NATS with JetStream for the live stream (default: in memory; "+
		"the part token measures both, and finds a NATS as tests do)")
	f.BoolVar(&o.Memory, "memory", false, "keep Temporal's data and the SQLite store in memory")
	f.StringVar(&o.Gate, "gate", "", "fail if the part cost exceeds the figures in this file")
	f.BoolVar(&o.Update, "update", false, "write the figures to the file of -gate instead")
	f.StringVar(&o.JSON, "json", "", "write the report to this file too, as JSON")
	f.StringVar(&o.Profiles, "profiles", "", "write a CPU profile of each round to this folder")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if *documents && *parts == strings.Join(runtimeParts, ",") {
		*parts = strings.Join(knowledgeParts, ",")
	}
	if o.Parts, err = choose("-parts", *parts, slices.Concat(runtimeParts, knowledgeParts)); err != nil {
		return o, err
	}
	if o.Shapes, err = choose("-shapes", *names, shapeNames()); err != nil {
		return o, err
	}
	chosen, err := choose("-ways", *ways, []string{string(byGo), string(byHTTP), string(byUpdate), string(bySignal)})
	if err != nil {
		return o, err
	}
	for _, name := range chosen {
		if way(name) != bySignal || o.Viewer {
			o.Ways = append(o.Ways, way(name))
		}
	}
	chosen, err = choose("-steps", *how, []string{string(asLocal), string(asActivities)})
	if err != nil {
		return o, err
	}
	for _, name := range chosen {
		o.Steps = append(o.Steps, steps(name))
	}
	if o.Threads, err = numbers("-threads", *threads); err != nil {
		return o, err
	}
	if o.Turns, err = numbers("-turns", *turns); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o *Options) check() error {
	if len(o.Turns) != len(o.Threads) {
		return fmt.Errorf("-turns has %d numbers and -threads %d: give one for each", len(o.Turns), len(o.Threads))
	}
	for i, n := range o.Threads {
		if o.Turns[i] < n {
			return fmt.Errorf("-turns: %d turns are less than one for each of %d threads", o.Turns[i], n)
		}
	}
	for _, field := range []struct {
		name       string
		value, min int
	}{
		{"-rounds", o.Rounds, 1},
		{"-pairs", o.Pairs, 1},
		{"-old", o.Old, 20},
		{"-tokens", o.Tokens, 1},
		{"-token-threads", o.TokenThreads, 1},
		{"-answers", o.Answers, 1},
		{"-burst-rate", o.Burst.Rate, 1},
		{"-burst-seconds", o.Burst.Seconds, 1},
		{"-burst-connections", o.Burst.Connections, 1},
		{"-burst-threads", o.Burst.Threads, 1},
		{"-flooded", o.Flooded, 1},
		{"-chunks", o.Knowledge.Chunks, 1},
		{"-searches", o.Knowledge.Searches, 1},
		{"-documents", o.Knowledge.Documents, 2},
	} {
		if field.value < field.min {
			return fmt.Errorf("%s is %d, must be at least %d", field.name, field.value, field.min)
		}
	}
	if o.Gate != "" && !slices.Contains(o.Parts, partCost) {
		return fmt.Errorf("-gate needs the part %s", partCost)
	}
	if o.Update && o.Gate == "" {
		return fmt.Errorf("-update needs -gate")
	}
	if (slices.Contains(o.Parts, partThroughput) || slices.Contains(o.Parts, partPassages)) && len(o.Ways) == 0 {
		return fmt.Errorf("-ways signal needs -viewer: who sends a signal learns of the end by watching")
	}
	return nil
}

func choose(name, list string, known []string) ([]string, error) {
	var out []string
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); !slices.Contains(known, word) {
			return nil, fmt.Errorf("%s: %q is none of %s", name, word, strings.Join(known, ", "))
		}
		out = append(out, word)
	}
	return out, nil
}

func numbers(name, list string) ([]int, error) {
	var out []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is not a positive number", name, word)
		}
		out = append(out, n)
	}
	return out, nil
}
