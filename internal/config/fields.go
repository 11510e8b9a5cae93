package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/internal/guard"
	"github.com/threadmill/threadmill/internal/names/near"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// configFile is the form of the file.
type configFile struct {
	Version        any
	Models         map[string]providerEntry
	TitleModel     string
	Knowledge      Knowledge
	Retention      Retention
	Redact         redactEntry
	Agents         []agentEntry
	Tools          toolsEntry
	MCP            map[string]mcpEntry
	MCPAPI         MCPAPI `yaml:"mcpApi"`
	Limits         agent.Limits
	Hooks          []hook.Hook
	Rules          []ruleEntry
	ApprovalRules  []approval.Rule
	ApproverGroups approval.FixedGroups
	Webhooks       []webhookEntry
	APIKeys        []keyEntry
	Temporal       temporalEntry
	HTTP           httpEntry
}

// Entries have the fields of the types that they declare, except for those with another form in
// files.
type agentEntry struct {
	agent.Agent
	InstructionsFile string
	AutoMention      *bool
	NoAutoMention    notInFile
}

// notInFile hides a field of an embedded type.
type notInFile struct{}

type toolsEntry struct {
	Shell  shellEntry `yaml:"shell_cmd"`
	Clock  clockEntry `yaml:"current_time"`
	Client []clientEntry
}

type shellEntry struct {
	Root        string
	Timeout     time.Duration
	MaxOutput   size
	MaxProgress size
	Env         []string
	Runner      []string
}

type clockEntry struct{ Timezone string }

type clientEntry struct {
	tool.Definition
	Timeout, Idempotent, MaxAttempts, Quick, Background, Detached, Client, PathRoot notInFile
}

type ruleEntry struct {
	rule.Rule
	Enabled                        *bool
	Disabled, Timeout, MaxAttempts notInFile
}

type webhookEntry struct {
	webhook.Endpoint
	SecretEnv []string
	Secrets   notInFile
}

type keyEntry struct {
	auth.Key
	SecretEnv string
	Expires   string
	ExpiresAt notInFile
}

type temporalEntry struct {
	StaleAfter        time.Duration
	StepsAsActivities bool
	UI                string
}

type redactEntry struct {
	Cards, Keys, Emails bool
	Patterns            []patternEntry
}

type patternEntry struct{ Name, Expression string }

type httpEntry struct {
	AllowedHosts, AllowedOrigins []string
	PublicURL                    string `yaml:"publicUrl"`
}

// Limits. Those of agents, tools and hooks are declared in the packages that enforce them; those of
// staleAfter equal the runtime's, as tests check.
const (
	maxSteps        = 1000
	maxModelTimeout = time.Hour
	maxContext      = 100_000
	maxOutputTokens = 10_000_000
	maxToolCalls    = 256
	minReplyBytes   = 1 << 10
	maxReplyBytes   = 8 << 20
	minResult       = 1 << 10
	maxResult       = 8 << 20

	maxShellTimeout = 12 * time.Hour
	minOutput       = 256
	maxOutput       = 16 << 20

	maxClientDeadline = 365 * 24 * time.Hour
	maxHookTimeout    = 365 * 24 * time.Hour
	maxHookAttempts   = 100

	minStaleAfter = 10 * time.Second
	maxStaleAfter = time.Hour
)

const (
	needsAgent = "the file needs at least one agent, with a name and a model"
	selectsAll = "name at least one, or remove the field, which selects all"
	omitIt     = "name at least one, or omit it "
	notNull    = "write exists: false for a field that does not exist, or is null"
)

// fieldRules are the rules of fields, by Go type and field.
var fieldRules = map[string]fieldRule{
	"config.configFile.Agents":        {required: needsAgent, nonEmpty: needsAgent, null: needsAgent},
	"config.configFile.ApprovalRules": {max: approval.MaxRules},

	"config.providerEntry.Type":       {required: "write type: openai (OpenAI, and everything compatible with it), openai-responses, anthropic, google or demo, or a cloud: openai-azure, openai-responses-azure, anthropic-bedrock, anthropic-vertex or google-vertex"},
	"config.providerEntry.APIKeyEnv":  {check: variableProblem(EnvAPIKey), secret: true},
	"config.providerEntry.BaseURL":    {check: urlProblem},
	"config.providerEntry.BaseURLEnv": {check: variableProblem(EnvBaseURL)},

	"llm.Limits.RequestsPerMinute": {min: 1, max: llm.MaxRequestsPerMinute, unset: "no limit"},
	"llm.Limits.TokensPerMinute":   {min: 1, max: llm.MaxTokensPerMinute, unset: "no limit"},
	"llm.Fallback.Chain":           {},
	"llm.Fallback.On":              {},
	"llm.Fallback.FirstToken":      {min: float64(llm.MinFirstToken), max: float64(llm.MaxFirstToken), unset: "no limit"},
	"llm.Fallback.ReturnAfter":     {min: float64(llm.MinReturnAfter), max: float64(llm.MaxReturnAfter), unset: byDefault(llm.DefaultReturnAfter)},

	"llm.Retry.For":             {max: float64(llm.MaxRetryFor), unset: byDefault(llm.DefaultRetryFor)},
	"llm.Retry.InitialInterval": {min: float64(llm.MinRetryInterval), max: float64(llm.MaxRetryInterval), unset: byDefault(llm.DefaultRetryInitial)},
	"llm.Retry.MaxInterval":     {min: float64(llm.MinRetryInterval), max: float64(llm.MaxRetryInterval), unset: byDefault(llm.DefaultRetryInterval)},
	"llm.Retry.Backoff":         {min: 1, max: llm.MaxRetryBackoff},
	"llm.Retry.MaxAttempts":     {min: 1, max: 1_000_000, unset: "no limit but for"},

	"agent.Agent.Name":            {required: "every agent needs one", check: checkIdentifier},
	"agent.Agent.Description":     {text: true},
	"agent.Agent.Instructions":    {text: true},
	"agent.Agent.Model":           {required: "write it as provider/model, such as openai/gpt-5.6-luna"},
	"agent.Agent.Temperature":     {max: 2},
	"agent.Agent.MaxOutputTokens": {min: 1, max: maxOutputTokens, unset: "the provider's default"},
	"agent.Agent.ApprovalRules":   {max: approval.MaxRules},

	"agent.Limits.MaxSteps":        {min: 1, max: maxSteps, unset: fmt.Sprintf("the default, %d", agent.DefaultMaxSteps)},
	"agent.Limits.ModelTimeout":    {max: float64(maxModelTimeout), unset: byDefault(agent.DefaultModelTimeout)},
	"agent.Limits.ContextMessages": {min: 1, max: maxContext, unset: fmt.Sprintf("the default, %d", agent.DefaultContextMessages)},
	"agent.Limits.MaxToolCalls":    {min: 1, max: maxToolCalls, unset: fmt.Sprintf("the default, %d", agent.DefaultMaxToolCalls)},
	"agent.Limits.MaxReplyBytes":   {min: minReplyBytes, max: maxReplyBytes, unset: fmt.Sprintf("the default, %d", agent.DefaultMaxReplyBytes)},
	"agent.Limits.MaxResult":       {min: minResult, max: maxResult, unset: fmt.Sprintf("the default, %d", agent.DefaultMaxResult)},

	"agent.Knowledge.Passages":    {max: agent.MaxPassages},
	"agent.Knowledge.Collections": {nonEmpty: omitIt + "for all", check: collectionProblem},

	"config.redactEntry.Patterns":    {nonEmpty: omitIt},
	"config.patternEntry.Name":       {required: "write name: what stands in brackets in place of the text, such as customer"},
	"config.patternEntry.Expression": {required: "write expression: a regular expression of the text, in Go's syntax"},

	"config.Retention.ClosedThreads": {min: float64(MinRetention), max: float64(maxRetention), unset: keptForEver},
	"config.Retention.IdleThreads":   {min: float64(MinRetention), max: float64(maxRetention), unset: keptForEver},
	"config.Retention.ToolLogs":      {min: float64(MinToolLogRetention), max: float64(maxRetention), unset: keptForEver},
	"config.Retention.Every":         {min: float64(MinRetentionEvery), max: float64(maxRetentionEvery), unset: byDefault(time.Hour)},

	"config.Knowledge.Dimension":     {min: 1, max: store.MaxKnowledgeDimension, unset: "the model's own"},
	"config.Knowledge.ChunkTokens":   {min: MinChunkTokens, max: MaxChunkTokens, unset: "the default, 512"},
	"config.Knowledge.OverlapTokens": {min: -1, max: MaxChunkTokens},

	"approval.Rule.Name":       {required: "people see it, and it is stored with each decision of the rule"},
	"approval.Rule.Effect":     {required: "allow, ask or deny"},
	"approval.Rule.Tools":      {nonEmpty: omitIt + "for all"},
	"approval.Rule.Agents":     {nonEmpty: omitIt + "for all"},
	"approval.Rule.When":       {text: true, check: expressionProblem},
	"approval.Rule.Reason":     {text: true},
	"approval.Terms.Approvers": {nonEmpty: omitIt + "if anybody may decide"},
	"approval.Terms.Groups":    {nonEmpty: omitIt + "if there are none", max: approval.MaxGroups},
	"approval.Terms.Quorum":    {min: 1, max: approval.MaxApprovers, unset: "the default, 1"},
	"approval.Terms.Expires":   {min: float64(approval.MinExpires), max: float64(approval.MaxExpires), unset: "no end"},
	"approval.Terms.Remind":    {min: float64(approval.MinExpires), max: float64(approval.MaxExpires), unset: "no reminders"},

	"config.toolsEntry.Client":       {single: true},
	"config.shellEntry.Timeout":      {max: float64(maxShellTimeout), unset: "the default, 2m"},
	"config.shellEntry.MaxOutput":    {min: minOutput, max: maxOutput, unset: "the default, 64KiB"},
	"config.shellEntry.MaxProgress":  {min: minOutput, max: maxOutput, unset: "the default, 1MiB"},
	"config.shellEntry.Env":          {check: anyVariableProblem},
	"config.shellEntry.Runner":       {nonEmpty: omitIt + "for sh -c"},
	"config.clockEntry.Timezone":     {check: timezoneProblem},
	"tool.Definition.Name":           {required: "every tool needs one", check: toolNameProblem},
	"tool.Definition.Description":    {text: true},
	"tool.Definition.Deadline":       {max: float64(maxClientDeadline), unset: byDefault(tool.DefaultDeadline)},
	"tool.Definition.ApprovalReason": {text: true},

	"config.mcpEntry.Description": {text: true},
	"config.mcpEntry.Command":     {nonEmpty: "write the program and its arguments, such as [npx, -y, some-server]"},
	"config.mcpEntry.Env":         {secret: true, check: passedProblem},
	"config.mcpEntry.EnvFrom":     {secret: true, check: variableProblem("GITHUB_TOKEN")},
	"config.mcpEntry.URL":         {check: tool.ServerURLProblem},
	"config.mcpEntry.HeadersEnv":  {secret: true, check: variableProblem("GITHUB_AUTHORIZATION")},
	"config.mcpEntry.Tools":       {nonEmpty: omitIt + "for all", check: quotedProblem(tool.ServerToolsProblem)},
	"config.mcpEntry.Login":       {null: "write {} for a login of the namespace"},
	"config.mcpEntry.Timeout":     {max: float64(tool.MaxServerTimeout), unset: "the default, 2m"},

	"config.mcpLoginEntry.ClientSecretEnv": {secret: true, check: variableProblem("TRACKER_SECRET")},
	"config.mcpLoginEntry.Scopes":          {nonEmpty: omitIt + "for those that the server names", check: quotedProblem(tool.ServerScopeProblem)},

	"hook.Hook.Name":          {required: "every hook needs one", check: checkIdentifier},
	"hook.Workflow.Type":      {required: "write the name of the workflow, as its worker registers it"},
	"hook.Workflow.TaskQueue": {required: "write the task queue on which the workflow's worker listens"},
	"hook.Filter.Types":       {nonEmpty: selectsAll, check: eventTypeProblem},
	"hook.Filter.CreatedBy":   {nonEmpty: selectsAll},
	"hook.Filter.Agents":      {nonEmpty: selectsAll},
	"hook.Filter.Tools":       {nonEmpty: selectsAll},
	"hook.Filter.Namespaces":  {nonEmpty: selectsAll, check: namespaceProblem},
	"hook.Hook.Timeout":       {max: float64(maxHookTimeout), unset: "no limit"},
	"hook.Hook.MaxAttempts":   {min: 1, max: maxHookAttempts, unset: "the default, 1"},

	"rule.Rule.Name": {check: ruleNameProblem},
	"rule.Rule.Events": {
		required: `name the types of events, such as file.changed, "github.*" or "*"`,
		single:   true, nonEmpty: selectsAll, check: patternProblem,
	},
	"rule.Rule.Priority":      {min: -rule.MaxPriority, max: rule.MaxPriority},
	"rule.Rule.Debounce":      {max: float64(rule.MaxHold), unset: "none"},
	"rule.Rule.Throttle":      {max: float64(rule.MaxHold), unset: "none"},
	"rule.Rule.Agent":         {null: "write {} for the agent that takes part in the thread, or its name, or a prompt"},
	"rule.Agent.Prompt":       {text: true},
	"rule.Agent.SystemPrompt": {text: true},
	"rule.Condition.Equals":   {null: notNull},
	"rule.Condition.Not":      {null: notNull},
	"rule.Condition.Contains": {null: notNull},
	"rule.Condition.Prefix":   {text: true},

	"webhook.Endpoint.Signature": {short: "Scheme"},
	"config.webhookEntry.SecretEnv": {
		single: true, secret: true, nonEmpty: "name at least one variable", check: variableProblem("GITHUB_WEBHOOK_SECRET"),
	},
	"webhook.Endpoint.Event":      {required: "what becomes of a request, by its type and thread"},
	"webhook.Signature.Prefix":    {text: true},
	"webhook.Signature.Tolerance": {max: float64(webhook.MaxTolerance), unset: byDefault(webhook.DefaultTolerance)},

	"config.keyEntry.SecretEnv": {secret: true, check: variableProblem("CI_API_KEY")},
	"auth.Key.Namespace":        {check: namespaceProblem},
	"config.keyEntry.Expires":   {check: momentProblem},

	"config.temporalEntry.StaleAfter": {min: float64(minStaleAfter), max: float64(maxStaleAfter), unset: "the default, 12s"},
	"config.temporalEntry.UI":         {check: func(s string) string { return problem(guard.Origins{s}.Validate()) }},
	"config.httpEntry.AllowedHosts":   {check: hostProblem},
	"config.httpEntry.PublicURL":      {check: func(s string) string { return problem(guard.Origins{s}.Validate()) }},
	"config.httpEntry.AllowedOrigins": {check: func(s string) string { return problem(guard.Origins{s}.Validate()) }},
}

// enums are the values of enum types.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[providerType]():      types(),
	reflect.TypeFor[llm.Trigger]():       {string(llm.OnOverload), string(llm.OnOutage), string(llm.OnSlow)},
	reflect.TypeFor[tool.LoginPer]():     {string(tool.LoginPerNamespace), string(tool.LoginPerUser)},
	reflect.TypeFor[agent.Policy]():      {string(agent.PolicyNever), string(agent.PolicyAlways), string(agent.PolicyDeny)},
	reflect.TypeFor[approval.Effect]():   {string(approval.EffectAllow), string(approval.EffectAsk), string(approval.EffectDeny)},
	reflect.TypeFor[approval.OnExpiry](): {string(approval.OnExpiryDeny), string(approval.OnExpiryInterrupt)},
	reflect.TypeFor[event.OnWaiting]():   {string(event.OnWaitingAnswer), string(event.OnWaitingHold), string(event.OnWaitingCancel)},
	reflect.TypeFor[event.CreatedBy]():   {string(event.CreatedByUser), string(event.CreatedByAgent), string(event.CreatedByTool), string(event.CreatedBySystem)},
	reflect.TypeFor[hook.FailureMode]():  {string(hook.FailClosed), string(hook.FailOpen)},
	reflect.TypeFor[auth.Role]():         auth.Roles(auth.AllRoles()).Strings(),
	reflect.TypeFor[webhook.Scheme]():    {string(webhook.SchemeGitHub), string(webhook.SchemeStripe), string(webhook.SchemeSlack), string(webhook.SchemeHMAC)},
	reflect.TypeFor[webhook.Encoding]():  {string(webhook.EncodingHex), string(webhook.EncodingBase64)},
	reflect.TypeFor[webhook.Algorithm](): {string(webhook.AlgorithmSHA256), string(webhook.AlgorithmSHA512)},
}

func byDefault(t time.Duration) string { return "the default, " + short(t) }

var identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func checkIdentifier(s string) string {
	if identifier.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("%q: use 1 to 64 letters, digits, - and _, beginning with a letter or digit", s)
}

func toolNameProblem(s string) string {
	if (tool.Definition{Name: s}).Validate() == nil {
		return ""
	}
	return fmt.Sprintf("%q: use 1 to 64 letters, digits, _ and -", s)
}

// variableProblem returns the problem without the text, which may be the secret itself.
func variableProblem(example string) func(string) string {
	return func(s string) string {
		if variable.MatchString(s) {
			return ""
		}
		return "must be the name of an environment variable (capitals, digits and _), such as " + example + ", not its value"
	}
}

// quotedProblem adds the text to its problem.
func quotedProblem(check func(string) string) func(string) string {
	return func(s string) string {
		if problem := check(s); problem != "" {
			return fmt.Sprintf("%q %s", s, problem)
		}
		return ""
	}
}

// passedProblem returns the problem without the text, which may contain a value.
func passedProblem(s string) string {
	if anyVariable.MatchString(s) {
		return ""
	}
	return "must be the name of an environment variable (letters, digits and _) that is passed on as it is; one with another name goes into envFrom"
}

func anyVariableProblem(s string) string {
	if anyVariable.MatchString(s) {
		return ""
	}
	return "must be the name of an environment variable (letters, digits and _), without a value"
}

func timezoneProblem(s string) string {
	if _, err := time.LoadLocation(s); err == nil && s != "Local" {
		return ""
	}
	return fmt.Sprintf("%q is not the IANA name of a time zone, such as Europe/Berlin or UTC", s)
}

func hostProblem(s string) string {
	if err := (guard.Hosts{Allowed: []string{s}}).Validate(); err != nil {
		return err.Error()
	}
	return ""
}

func collectionProblem(s string) string { return problem(signals.ValidateID("collection", s)) }

func namespaceProblem(s string) string { return problem(signals.ValidateID("namespace", s)) }

func expressionProblem(s string) string {
	return problem(approval.Rule{Name: "x", Effect: approval.EffectAsk, When: strings.TrimSpace(s)}.Validate())
}

func ruleNameProblem(s string) string {
	return problem(rule.Rule{Name: s, Events: []string{event.TypeUserQuery}}.Validate())
}

func patternProblem(s string) string {
	return problem(rule.Rule{Name: "x", Events: []string{s}}.Validate())
}

func problem(err error) string {
	if field, ok := errors.AsType[*event.FieldError](err); ok {
		return field.Problem
	}
	return ""
}

// moment decodes a date, which begins at midnight UTC, or a time.
func moment(s string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err
}

func momentProblem(s string) string {
	if _, err := moment(s); err == nil {
		return ""
	}
	return "is not a day or a time: write it like 2027-01-31 or 2027-01-31T12:00:00Z"
}

var builtInTypes = []string{event.TypeMessage, event.TypeToolCall, event.TypeLLMCall}

// eventTypeProblem validates an event type, or a pattern that ends in a star. Any name may be a
// custom type, but a name like that of a built-in type is probably a mistake.
func eventTypeProblem(s string) string {
	prefix, wild := strings.CutSuffix(s, "*")
	switch {
	case strings.Contains(prefix, "*"):
		return fmt.Sprintf("%q: a * can stand at the end only, where it matches every type that begins like it", s)
	case wild && prefix == event.TypeLLMCall:
		return fmt.Sprintf("%q: only the full name selects model calls: write %s", s, prefix)
	case wild || slices.Contains(builtInTypes, s):
		return ""
	case event.Reserved(s):
		return fmt.Sprintf("hooks do not receive %q, which the thread records itself; they receive message, tool_call, llm_call and custom types", s)
	}
	for _, known := range builtInTypes {
		if near.Distance(s, known) <= 1 {
			return fmt.Sprintf("%q is not a type of a thread; did you mean %q? (write a custom type of that name as %[1]s*)", s, known)
		}
	}
	return ""
}
