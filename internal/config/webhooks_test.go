package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/webhook"
)

const anAgent = "agents: [{name: assistant, model: demo/demo}]\n"

func TestWebhooks(t *testing.T) {
	const file = anAgent + `
webhooks:
  - name: github
    signature: github
    secretEnv: HUB_KEY
    event: &event
      type: "github.{header.X-GitHub-Event}"
      thread: "{payload.repository.full_name}"
      open: true
      agents: [Assistant]
  - name: shop
    signature:
      scheme: hmac
      header: X-Shop-Signature
      prefix: "sig "
      encoding: base64
      algorithm: sha512
      timestampHeader: X-Shop-Sent
      tolerance: 90s
    secretEnv: [SHOP_KEY, OLD_SHOP_KEY]
    event:
      type: shop.order
      thread: "shop-{payload.customer}"
      id: "{payload.order.id}"
      envName: shop
      payload: "{payload.order}"
      timestamp: "{payload.order.created}"
  - {name: bell, unsigned: true, event: {type: bell.rung, thread: door}}
  - {name: again, signature: {scheme: stripe, header: X-Stripe}, secretEnv: HUB_KEY, event: *event}
`
	c, err := Parse("f", []byte(file), "", Env(env("HUB_KEY", "k1\n", "SHOP_KEY", "k2", "OLD_SHOP_KEY", "k3")))
	require.NoError(t, err)
	github := webhook.Event{
		Type: "github.{header.X-GitHub-Event}", Thread: "{payload.repository.full_name}", Open: true, Agents: []string{"Assistant"},
	}
	require.Equal(t, []webhook.Endpoint{
		{Name: "github", Signature: webhook.Signature{Scheme: webhook.SchemeGitHub}, Secrets: []webhook.Secret{"k1"}, Event: github},
		{
			Name: "shop",
			Signature: webhook.Signature{
				Scheme: webhook.SchemeHMAC, Header: "X-Shop-Signature", Prefix: "sig ", Encoding: webhook.EncodingBase64, Algorithm: webhook.AlgorithmSHA512,
				TimestampHeader: "X-Shop-Sent", Tolerance: 90 * time.Second,
			},
			Secrets: []webhook.Secret{"k2", "k3"},
			Event: webhook.Event{
				Type: "shop.order", Thread: "shop-{payload.customer}", ID: "{payload.order.id}", EnvName: "shop",
				Payload: "{payload.order}", Timestamp: "{payload.order.created}",
			},
		},
		{Name: "bell", Unsigned: true, Event: webhook.Event{Type: "bell.rung", Thread: "door"}},
		{
			Name: "again", Signature: webhook.Signature{Scheme: webhook.SchemeStripe, Header: "X-Stripe"},
			Secrets: []webhook.Secret{"k1"}, Event: github,
		},
	}, c.Webhooks)
	require.NoError(t, webhook.ValidateAll(c.Webhooks))
	require.NotContains(t, fmt.Sprintf("%+v %#v", c, c), "k2")
}

func TestWebhooksThatAreText(t *testing.T) {
	_, err := Parse("f", []byte(anAgent+"webhooks: xoxb-secret\n"), "", Env(env()))
	require.ErrorContains(t, err, "webhooks: is text, must be a list")
	require.NotContains(t, Explain(err), "xoxb")
}

// TestWebhooksFollowTheFile: a secret that leaks is taken out without a restart.
func TestWebhooksFollowTheFile(t *testing.T) {
	const hook = "webhooks: [{name: %s, signature: github, secretEnv: K, event: {type: x, thread: t1}}]\n"
	names := func(f *followed) (list []string) {
		for _, s := range f.source.Webhooks() {
			list = append(list, s.Name)
		}
		return list
	}
	f := follow(t, prompt("one")+fmt.Sprintf(hook, "a"))
	require.Equal(t, []string{"a"}, names(f))
	f.write(f.path, prompt("one")+fmt.Sprintf(hook, "b"))
	f.later()
	require.Equal(t, []string{"b"}, names(f))
	require.Zero(t, f.logged("restart"), f.log.String())

	f.write(f.path, prompt("one")+strings.Replace(fmt.Sprintf(hook, "c"), "secretEnv: K", "secretEnv: NOT_SET", 1))
	f.later()
	require.Equal(t, []string{"b"}, names(f), "a file with mistakes changes nothing")
	require.Equal(t, 1, f.logged(mistakes))

	f.write(f.path, prompt("one"))
	f.later()
	require.Empty(t, names(f))
}

// TestWebhooksGuide keeps the configuration in the guide one that is read.
func TestWebhooksGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/webhooks.md")
	require.NoError(t, err)
	blocks := 0
	for i, part := range strings.Split(string(text), "```") {
		block, ok := strings.CutPrefix(part, "yaml\n")
		if i%2 == 0 || !ok {
			continue
		}
		blocks++
		c, err := Parse("webhooks.md", []byte(anAgent+block), "", Env(func(string) string { return "k" }))
		require.NoError(t, err, block)
		require.NotEmpty(t, c.Webhooks, block)
	}
	require.Positive(t, blocks)
}
