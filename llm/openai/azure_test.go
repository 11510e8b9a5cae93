package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/llm/openai"
)

func TestNewAzure(t *testing.T) {
	const address = "https://openai-of-ann.openai.azure.com"
	for _, tt := range []struct {
		field  string
		config openai.Config
	}{
		{"BaseURL", openai.Config{APIKey: key, Azure: &openai.Azure{APIVersion: "2024-10-21"}}},
		{"BaseURL", openai.Config{APIKey: key, BaseURL: "my-resource", Azure: &openai.Azure{APIVersion: "2024-10-21"}}},
		{"BaseURL", openai.Config{APIKey: key, BaseURL: address + "/openai/v1", Azure: &openai.Azure{APIVersion: "2024-10-21"}}},
		{"APIKey", openai.Config{BaseURL: address, Azure: &openai.Azure{APIVersion: "2024-10-21"}}},
		{"Azure.APIVersion", openai.Config{APIKey: key, BaseURL: address, Azure: &openai.Azure{}}},
		{"Azure.APIVersion", openai.Config{APIKey: key, BaseURL: address, Azure: &openai.Azure{APIVersion: "4"}}},
		{"Azure.Deployment", openai.Config{APIKey: key, BaseURL: address, Azure: &openai.Azure{APIVersion: "2024-10-21", Deployment: "a/b"}}},
	} {
		_, err := openai.New(tt.config)
		require.ErrorContains(t, err, "openai: "+tt.field+": ")
		_, err = openai.NewResponses(tt.config)
		require.ErrorContains(t, err, "openai: "+tt.field+": ")
	}
	_, err := openai.New(openai.Config{APIKey: key, BaseURL: address, Azure: &openai.Azure{APIVersion: "2024-10-21"}})
	require.NoError(t, err)
}
