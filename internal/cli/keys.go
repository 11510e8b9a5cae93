package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/postgres"
	"github.com/threadmill/threadmill/store/sqlite"
)

// envDatabase is the variable with the URL of the workers' PostgreSQL.
const envDatabase = "DATABASE_URL"

// keyCommands are the commands on API keys.
type keyCommands struct{ *app }

func (a keyCommands) keysCommand() *cobra.Command {
	return group("keys", "Create, list, rotate and revoke API keys",
		`Create, list, rotate and revoke API keys, with which programs and people use the HTTP API.

The API needs the role admin for this. The first key is created where the database is, with
--database or --sqlite, or by an API that only this machine can reach and that has no keys yet.
Secrets are printed once, and stored as hashes only.`,
		a.keyListCommand(), a.keyCreateCommand(), a.keyRotateCommand(), a.keyRevokeCommand(), a.keyGenerateCommand())
}

func (a keyCommands) keyListCommand() *cobra.Command {
	var revoked bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the API keys, without their secrets",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				keys, err := client.Keys(ctx, revoked)
				return a.show(map[string]any{"keys": keys}, err, render.Keys(keys), "there are no API keys")
			})
		},
	})
	cmd.Flags().BoolVar(&revoked, "revoked", false, "with those that are revoked")
	return cmd
}

// parseExpiry returns the expiry of a key, nil if there is none.
func parseExpiry(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return &at, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		at := time.Now().Add(d)
		return &at, nil
	}
	return nil, usagef("--expires is %q, must be a day such as 2027-01-31, a time such as 2027-01-31T12:00:00Z, or a duration such as 720h", text)
}

func (a keyCommands) keyCreateCommand() *cobra.Command {
	var names []string
	var file, expiry string
	var database bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "create <name>",
		Short: "Create an API key, and print its secret",
		Long: `Create an API key, and print its secret, which is not shown again.

The name becomes the sender of messages and the "by" of decisions. With --database or --sqlite
the key is written to the database itself: that is how the first key is created, and the way out
when no administrator's key is left.`,
		Example: `  starter keys create ann --roles read,post,approve
  starter keys create root --roles admin --sqlite .threadmill/threadmill.db`,
		RunE: func(cmd *cobra.Command, args []string) error {
			roles, err := auth.ParseRoles(names)
			if err != nil {
				return usagef("--%w", err)
			}
			expires, err := parseExpiry(expiry)
			if err != nil {
				return err
			}
			if err := auth.ValidateName("name", args[0]); err != nil {
				return usageError{err}
			}
			if file == "" && !database {
				return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
					return a.showNewKey(client.CreateKey(ctx, args[0], roles.Strings(), expires))
				})
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), a.flags.timeout)
			defer cancel()
			db, err := openKeyStore(ctx, file, database)
			if err != nil {
				return err
			}
			defer db.Close()
			return a.showNewKey(a.createStoredKey(ctx, db, args[0], roles, expires))
		},
	})
	cmd.Flags().StringSliceVar(&names, "roles", nil, "what the key may do: "+strings.Join(auth.Roles(auth.AllRoles()).Strings(), ", "))
	cmd.Flags().StringVar(&expiry, "expires", "", "day or time at which the key ends, such as 2027-01-31, or a duration such as 720h (default: never)")
	cmd.Flags().BoolVar(&database, "database", false, "write to the database at "+envDatabase+", not to the API")
	cmd.Flags().StringVar(&file, "sqlite", "", "write to this database, such as .threadmill/threadmill.db of a devserver, not to the API")
	return cmd
}

// keyStore is where keys are stored, whose names agents may not have.
type keyStore interface {
	store.APIKeys
	store.Agents
	Close() error
}

// openKeyStore opens the database of the flags.
func openKeyStore(ctx context.Context, file string, database bool) (keyStore, error) {
	if file == "" {
		url := os.Getenv(envDatabase)
		if url == "" {
			return nil, usagef("--database: %s is not set: set it to that of the workers", envDatabase)
		}
		db, err := postgres.Open(ctx, postgres.Config{URL: url})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", envDatabase, err)
		}
		return db, nil
	}
	if database {
		return nil, usagef("--sqlite: --database is given as well: keep one of them")
	}
	// A misspelt path must not create an unused database.
	if _, err := os.Stat(file); err != nil {
		return nil, usagef("--sqlite: %w", err)
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Path: file})
	if err != nil {
		return nil, fmt.Errorf("--sqlite: %w", err)
	}
	return db, nil
}

func (a keyCommands) createStoredKey(ctx context.Context, db keyStore, name string, roles auth.Roles, expires *time.Time) (auth.NewAPIKey, error) {
	by, err := actor("")
	if err != nil {
		return auth.NewAPIKey{}, err
	}
	kept, err := db.Agent(ctx, a.flags.namespace, name)
	switch {
	case err == nil && !kept.Deleted:
		return auth.NewAPIKey{}, usagef("%q is the name of an agent: choose another name for the key", name)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return auth.NewAPIKey{}, err
	}
	id, token := auth.NewToken()
	k := store.APIKey{ID: id, Namespace: a.flags.namespace, Name: name, Roles: roles.Strings(), Hash: token.Hash(), CreatedBy: by}
	if expires != nil {
		k.ExpiresAt = *expires
	}
	made, err := db.CreateAPIKey(ctx, k)
	if errors.Is(err, store.ErrExists) {
		return auth.NewAPIKey{}, fmt.Errorf("an API key %q already exists in namespace %q: choose another name", name, k.Namespace)
	}
	if err != nil {
		return auth.NewAPIKey{}, err
	}
	return auth.NewAPIKey{Key: auth.APIKey{APIKey: made, Source: auth.SourceStored}, Token: token.Reveal()}, nil
}

// showNewKey prints only the secret on stdout, so that it can be redirected to a file.
func (a keyCommands) showNewKey(made auth.NewAPIKey, err error) error {
	if err == nil && !a.json {
		a.warn("API key %s (%s) may %s. It is not shown again: keep it in %s, or in a file for --api-key-file.",
			made.Key.Name, made.Key.ID, strings.Join(made.Key.Roles, ", "), envKey)
	}
	return a.show(made, err, line("%s", made.Token), "")
}

// keyNamed finds a key by name or id.
func keyNamed(ctx context.Context, client *api.Client, name string) (auth.APIKey, error) {
	keys, err := client.Keys(ctx, false)
	if err != nil {
		return auth.APIKey{}, err
	}
	i := slices.IndexFunc(keys, func(k auth.APIKey) bool { return strings.EqualFold(k.Name, name) || k.ID == name })
	switch {
	case i < 0:
		return auth.APIKey{}, fmt.Errorf(`there is no API key %q: "starter keys list" shows those that there are`, name)
	case keys[i].ID == "":
		return auth.APIKey{}, fmt.Errorf("API key %q is configured, not stored: change it in the server's configuration", name)
	}
	return keys[i], nil
}

func (a keyCommands) keyRotateCommand() *cobra.Command {
	var overlap time.Duration
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "rotate <name>",
		Short: "Rotate the secret of an API key, and print it",
		RunE: func(cmd *cobra.Command, args []string) error {
			if overlap < 0 {
				return usagef("--overlap is %s, must not be negative", overlap)
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				k, err := keyNamed(ctx, client, args[0])
				if err != nil {
					return err
				}
				return a.showNewKey(client.RotateKey(ctx, k.ID, overlap))
			})
		},
	})
	cmd.Flags().DurationVar(&overlap, "overlap", 0, "how long the secret before remains valid, at most 168h (default: it ends at once)")
	return cmd
}

func (a keyCommands) keyRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke <name>",
		Short: "Revoke an API key: it ends within seconds, with its streams",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				k, err := keyNamed(ctx, client, args[0])
				if err != nil {
					return err
				}
				return a.show(nil, client.RevokeKey(ctx, k.ID), line("%s revoked", k.Name), "")
			})
		},
	}
}

func (a keyCommands) keyGenerateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "generate",
		Short: "Print a new secret and its hash, for a key that is configured",
		Long: `Print a new secret and its hash. Nothing is stored: the hash goes into apiKeys of the
configuration file or into THREADMILL_API_KEYS of the server, the secret to the user of the API.`,
		RunE: func(*cobra.Command, []string) error {
			_, token := auth.NewToken()
			a.say("secret  %s", token.Reveal())
			a.say("hash    %s", token.Hash())
			return nil
		},
	}
}
