package llmtest

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strings"
	"unicode"
)

// EmbeddingDimension is the dimension of the server's vectors, unless a request asks for another one.
const EmbeddingDimension = 64

// Embedding returns the vector of a text: the more words two texts share, the more similar their vectors are. Words
// have the same vector whatever their case.
func Embedding(text string, dimension int) []float32 {
	v := make([]float32, dimension)
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(word)) // never fails
		seed := h.Sum64()
		for i := range v {
			seed = seed*6364136223846793005 + 1442695040888963407
			v[i] += float32(int32(seed>>32)) / math.MaxInt32
		}
	}
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		v[0], sum = 1, 1 // providers embed any text
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
	return v
}

// embedWire is a request for embeddings in the protocol of a provider.
type embedWire interface {
	// read returns the texts and the dimension (0 = the default), or the reason why the provider rejects the request.
	read() (texts []string, dimension int, problem string)

	// result returns the body of the response.
	result(vectors [][]float32) object
}

// embed returns the body of the response to a request for embeddings.
func embed(w embedWire, f Fault) object {
	texts, dimension, _ := w.read()
	if f.kind == dimensions {
		dimension = f.times
	}
	if dimension == 0 {
		dimension = EmbeddingDimension
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = Embedding(text, dimension)
	}
	return w.result(vectors)
}

// problem returns the reason why the provider rejects a request for embeddings, or "".
func problem(w embedWire) string {
	_, _, problem := w.read()
	return problem
}

// embedRequest is a request of OpenAI's protocol.
type embedRequest struct {
	Model          string   `json:"model"`
	Input          []string `json:"input"`
	Dimensions     int      `json:"dimensions"`
	EncodingFormat string   `json:"encoding_format"`
	User           string   `json:"user"`
}

// maxInputs is the maximum number of texts that OpenAI accepts.
const maxInputs = 2048

func (q *embedRequest) read() (texts []string, dimension int, problem string) {
	switch {
	case q.Model == "":
		problem = "you must provide a model parameter"
	case len(q.Input) == 0 || len(q.Input) > maxInputs:
		problem = "'$.input' is invalid"
	case q.EncodingFormat != "" && q.EncodingFormat != "float":
		problem = "the server knows the encoding format float only"
	}
	for _, text := range q.Input {
		if text == "" {
			problem = "'$.input' is invalid: input cannot be an empty string"
		}
	}
	return q.Input, q.Dimensions, problem
}

func (q *embedRequest) problem() string        { return problem(q) }
func (q *embedRequest) failure(f Fault) object { return new(chatRequest).failure(f) }
func (q *embedRequest) reply(f Fault) object   { return embed(q, f) }

func (q *embedRequest) result(vectors [][]float32) object {
	data := make([]any, len(vectors))
	for i, v := range vectors {
		// The order is that of the index, not of the list.
		data[len(data)-1-i] = object{"object": "embedding", "index": i, "embedding": v}
	}
	n := 0
	for _, text := range q.Input {
		n += len(strings.Fields(text))
	}
	return object{"object": "list", "data": data, "model": q.Model, "usage": object{"prompt_tokens": n, "total_tokens": n}}
}

// batchRequest is a request of Google's protocol.
type batchRequest struct {
	model string

	Requests []struct {
		Model   string `json:"model"`
		Content struct {
			Role  string `json:"role"`
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"content"`
		TaskType             string `json:"taskType"`
		Title                string `json:"title"`
		OutputDimensionality int    `json:"outputDimensionality"`
	} `json:"requests"`
}

// maxBatch is the maximum number of texts that Google accepts.
const maxBatch = 100

func (q *batchRequest) read() (texts []string, dimension int, problem string) {
	if len(q.Requests) == 0 || len(q.Requests) > maxBatch {
		problem = fmt.Sprintf("BatchEmbedContentsRequest.requests: at most %d requests can be in one batch", maxBatch)
	}
	for i, r := range q.Requests {
		switch {
		case r.Model != "models/"+q.model:
			problem = fmt.Sprintf("requests[%d].model must be the model of the batch", i)
		case len(r.Content.Parts) == 0 || r.Content.Parts[0].Text == "":
			problem = fmt.Sprintf("requests[%d].content: contents is not specified", i)
		case r.TaskType != "RETRIEVAL_DOCUMENT" && r.TaskType != "RETRIEVAL_QUERY":
			problem = fmt.Sprintf("requests[%d].taskType is not one of the suite", i)
		default:
			texts, dimension = append(texts, r.Content.Parts[0].Text), r.OutputDimensionality
		}
	}
	return texts, dimension, problem
}

func (q *batchRequest) problem() string        { return problem(q) }
func (q *batchRequest) failure(f Fault) object { return new(contentRequest).failure(f) }
func (q *batchRequest) reply(f Fault) object   { return embed(q, f) }

func (q *batchRequest) result(vectors [][]float32) object {
	list := make([]any, len(vectors))
	for i, v := range vectors {
		list[i] = object{"values": v}
	}
	return object{"embeddings": list}
}

// Dimension responds with vectors of another dimension than the request asks for.
func Dimension(n int) Fault { return Fault{kind: dimensions, times: n} }

// models serves Google's calls of a model.
func (s *Server) models(checks ...func(*http.Request) *Fault) http.HandlerFunc {
	generate := s.serve(newContentRequest, checks...)
	embed := s.plain(func(r *http.Request) plainWire {
		model, _, _ := strings.Cut(r.PathValue("method"), ":")
		return &batchRequest{model: model}
	}, checks...)
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.PathValue("method"), ":batchEmbedContents") {
			embed(w, r)
			return
		}
		generate(w, r)
	}
}

func newEmbedRequest(*http.Request) plainWire { return &embedRequest{} }
