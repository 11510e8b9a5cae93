package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/threadmill/threadmill/llm"
)

// clouds adds the routes of the clouds that serve the models of others: Azure, Amazon Bedrock and
// Vertex AI.
func (s *Server) clouds(mux *http.ServeMux) {
	mux.HandleFunc("POST /openai/deployments/{deployment}/chat/completions", s.serve(s.newChatRequest, azureProblem))
	mux.HandleFunc("POST /openai/deployments/{deployment}/embeddings", s.plain(newEmbedRequest, azureProblem))
	mux.HandleFunc("POST /openai/responses", s.serve(newResponsesRequest, azureProblem))
	mux.HandleFunc("POST /model/{model}/invoke-with-response-stream", s.serve(newBedrockRequest, signatureMissing))
	const place = "/projects/{project}/locations/{region}/publishers/"
	mux.HandleFunc("POST /v1"+place+"anthropic/models/{method}", s.serve(newVertexRequest, tokenMissing))
	mux.HandleFunc("POST /v1beta1"+place+"google/models/{method}", s.serve(newContentRequest, tokenMissing))
	mux.HandleFunc("POST /token", serveToken)
}

// denied is the fault of a request that a cloud does not let in.
func denied(status int, code, message string) *Fault {
	f := Status(status, "").WithError(code, message)
	return &f
}

func azureProblem(r *http.Request) *Fault {
	switch {
	case r.Header.Get("Api-Key") == "":
		return denied(http.StatusUnauthorized, "401", "Access denied due to missing subscription key.")
	case r.URL.Query().Get("api-version") == "":
		return denied(http.StatusNotFound, "404", "Resource not found")
	}
	return nil
}

// signature is the form of signatures of requests to Bedrock.
var signature = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/[0-9]{8}/[a-z0-9-]+/bedrock/aws4_request, SignedHeaders=[a-z0-9;-]*host[a-z0-9;-]*, Signature=[0-9a-f]{64}$`)

func signatureMissing(r *http.Request) *Fault {
	authorization := r.Header.Get("Authorization")
	if strings.HasPrefix(authorization, "Bearer ") || signature.MatchString(authorization) && r.Header.Get("X-Amz-Date") != "" {
		return nil
	}
	return denied(http.StatusForbidden, "MissingAuthenticationTokenException", "Missing Authentication Token")
}

func tokenMissing(r *http.Request) *Fault {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return nil
	}
	return denied(http.StatusUnauthorized, "UNAUTHENTICATED", "Request is missing required authentication credential.")
}

// cloudMessages is a request in Anthropic's protocol to a cloud, which takes the model from the path.
type cloudMessages struct {
	messagesRequest

	Version string          `json:"anthropic_version"`
	Extra   json.RawMessage `json:"model"`

	name, version string
}

func (q *cloudMessages) request() llm.Request {
	q.Model = q.name
	return q.messagesRequest.request()
}

func (q *cloudMessages) problem() string {
	switch {
	case q.Version != q.version:
		return fmt.Sprintf("anthropic_version: %q must be %s", q.Version, q.version)
	case q.Extra != nil:
		return "model: Extra inputs are not permitted"
	case q.Cache != nil:
		return "cache_control: Extra inputs are not permitted"
	}
	return q.messagesRequest.problem()
}

func newVertexRequest(r *http.Request) wire {
	model, _, _ := strings.Cut(r.PathValue("method"), ":")
	return &cloudMessages{name: model, version: "vertex-2023-10-16", messagesRequest: messagesRequest{account: account(r)}}
}

// bedrockRequest is a request to Bedrock, whose stream has frames instead of lines.
type bedrockRequest struct{ cloudMessages }

func newBedrockRequest(r *http.Request) wire {
	return &bedrockRequest{cloudMessages{name: r.PathValue("model"), version: "bedrock-2023-05-31", messagesRequest: messagesRequest{account: account(r)}}}
}

func (q *bedrockRequest) streams() bool { return true }

func (q *bedrockRequest) failure(f Fault) object { return object{"message": f.message} }

func (q *bedrockRequest) fail(c *call) { c.json("error", q.failure(c.fault)) }
