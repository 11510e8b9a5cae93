package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/store/sqlite"
)

// The API of a runtime, with a handler of the application beside it. Requests name their person in a header of this application's
// proxy.
func ExampleNew() {
	records, err := sqlite.Open(context.Background(), sqlite.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer records.Close()
	runtime, err := threadmill.New(threadmill.Config{
		Store:  records,
		Agents: []agent.Agent{{Name: "echo", Model: "demo/any"}},
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{})},
	})
	if err != nil {
		log.Fatal(err)
	}
	api, err := httpapi.New(runtime, httpapi.Config{
		Authenticator: auth.Func(func(r *http.Request) (auth.Principal, error) {
			if user := r.Header.Get("Shop-User"); user != "" {
				return auth.Principal{Name: user, Kind: auth.KindProxy, Roles: auth.Roles{auth.RoleRead, auth.RolePost}}, nil
			}
			return auth.Principal{}, auth.ErrUnauthenticated
		}),
		Routes: func(*threadmill.Runtime) []httpapi.Route {
			return []httpapi.Route{{Pattern: "GET /hello", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "hello %s", auth.FromContext(r.Context()).Name)
			})}}
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	get := func(path, user string) *httptest.ResponseRecorder {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		request.Header.Set("Shop-User", user)
		api.ServeHTTP(answer, request)
		return answer
	}
	fmt.Println(get("/hello", "ann").Body)
	fmt.Println(get("/hello", "").Code)
	var agents struct {
		Agents []struct{ Name string }
	}
	if err := json.Unmarshal(get("/v1/agents", "ann").Body.Bytes(), &agents); err != nil {
		log.Fatal(err)
	}
	fmt.Println(agents.Agents[0].Name)
	// Output:
	// hello ann
	// 401
	// echo
}
