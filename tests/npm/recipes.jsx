// A page with one of the chats of docs/frontends.md.

import { Client } from "@threadmill/client";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Chat as AssistantUI } from "./assistant-ui.jsx";
import { Chat as CopilotKit } from "./copilotkit.jsx";

const query = new URLSearchParams(location.search);
const client = new Client({ baseURL: query.get("api") });
const Chat = { "assistant-ui": AssistantUI, copilotkit: CopilotKit }[query.get("page")];
createRoot(document.getElementById("root")).render(<StrictMode><Chat client={client} id={location.hash.slice(1)} sender={query.get("name")} /></StrictMode>);
