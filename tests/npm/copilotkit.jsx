import { CopilotChat, CopilotKitProvider, useDefaultRenderTool, useFrontendTool, useInterrupt } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { ThreadAgent } from "@threadmill/client/ag-ui";
import { useMemo, useState } from "react";
import { z } from "zod";

export function Chat({ client, id, sender }) {
  const agent = useMemo(() => new ThreadAgent({ client, threadId: id, sender }), [client, id, sender]);
  const agents = useMemo(() => ({ default: agent }), [agent]);
  const [problem, setProblem] = useState("");
  return (
    <CopilotKitProvider selfManagedAgents={agents} enableInspector={false} onError={({ error }) => setProblem(error.message)}>
      <ToolCalls />
      <CopilotChat threadId={id} onStop={() => agent.stop()} />
      {problem && <p role="alert">{problem} <button onClick={() => setProblem("")}>Dismiss</button></p>}
    </CopilotKitProvider>
  );
}

function ToolCalls() {
  useDefaultRenderTool();
  useFrontendTool({ name: "locate", parameters: z.object({}), handler: async () => ({ city: "Bern" }) });
  useInterrupt({
    render: ({ interrupts, resolve, cancel }) => <>{interrupts.map((i) => <Request key={i.id} {...i} resolve={resolve} cancel={cancel} />)}</>,
  });
  return null;
}

function Request({ id, reason, message, metadata, resolve, cancel }) {
  const [answered, setAnswered] = useState(false);
  const once = (answer) => () => {
    setAnswered(true); // CopilotKit sends the answers to several requests together
    answer();
  };
  if (answered) return null;
  if (reason !== "tool_approval") return <p>{message} <button onClick={once(() => cancel(id))}>Cancel</button></p>;
  return (
    <p>
      {message} {metadata.request.arguments}
      <button onClick={once(() => resolve({ approved: true }, id))}>Approve</button>
      <button onClick={once(() => resolve({ approved: false, reason: "not now" }, id))}>Deny</button>
    </p>
  );
}
