package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/text/markdown"
)

type markdownInput struct {
	Body struct {
		Texts []string `json:"texts" nullable:"false" maxItems:"200" doc:"The texts"`
	}
}

type markdownOutput struct {
	Body struct {
		Documents [][]markdown.Node `json:"documents" nullable:"false" doc:"The nodes of each text, in the order of the texts"`
	}
}

func (c *core) registerMarkdown() {
	register(c, auth.RoleRead, huma.Operation{
		OperationID: "renderMarkdown", Method: http.MethodPost, Path: "/v1/markdown", Tags: []string{"server"},
		Summary: "Render Markdown for pages, with highlighted code",
		Description: "The text may be hostile: the result has elements of a fixed set, raw HTML is text, links lead to other pages only, and images are " +
			"links. Build the elements one by one, and no text becomes markup.",
	}, c.renderMarkdown)
}

func (c *core) renderMarkdown(_ context.Context, in *markdownInput) (*markdownOutput, error) {
	out := &markdownOutput{}
	out.Body.Documents = make([][]markdown.Node, len(in.Body.Texts))
	budget := markdown.NewBudget()
	for i, text := range in.Body.Texts {
		out.Body.Documents[i] = nonNil(budget.Render(text))
	}
	return out, nil
}
