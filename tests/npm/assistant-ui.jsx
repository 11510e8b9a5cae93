import { AssistantRuntimeProvider, ComposerPrimitive, ErrorPrimitive, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk";
import { useThread } from "@threadmill/client/react";

export function Chat({ client, id, sender }) {
  const thread = useThread({ client, id, sender, tools: ["locate"], onToolCall: () => ({ city: "Bern" }) });
  const runtime = useAISDKRuntime(thread, {
    cancelPendingToolCallsOnSend: false, // the thread says what becomes of them
    onRespondToToolApproval: async ({ approved, reason }, { toolCallId }) => {
      const part = thread.waiting.find((p) => p.toolCallId === toolCallId);
      if (part) await (approved ? thread.approve(part) : thread.deny(part, reason));
    },
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Viewport>
        <ThreadPrimitive.Messages>{({ message }) => <Message role={message.role} />}</ThreadPrimitive.Messages>
      </ThreadPrimitive.Viewport>
      <ComposerPrimitive.Root>
        <ComposerPrimitive.Input aria-label="Message" />
        <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
      </ComposerPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

function Message({ role }) {
  return (
    <MessagePrimitive.Root data-role={role}>
      <MessagePrimitive.Parts components={{ tools: { Fallback: ToolCall } }} />
      <MessagePrimitive.Error>
        <ErrorPrimitive.Root><ErrorPrimitive.Message /></ErrorPrimitive.Root>
      </MessagePrimitive.Error>
    </MessagePrimitive.Root>
  );
}

function ToolCall({ toolName, argsText, approval, respondToApproval, addResult, result }) {
  const waits = approval && approval.approved === undefined && result === undefined;
  const answer = (answer) => respondToApproval(answer).catch((error) => alert(error.message));
  return (
    <p>
      {toolName} {argsText} {typeof result === "string" ? result : JSON.stringify(result)}
      {waits && <button onClick={() => answer({ approved: true })}>Approve</button>}
      {waits && <button onClick={() => answer({ approved: false, reason: "not now" })}>Deny</button>}
      {toolName === "request_input" && !result && <button onClick={() => addResult({ action: "cancel" })}>Cancel</button>}
    </p>
  );
}
