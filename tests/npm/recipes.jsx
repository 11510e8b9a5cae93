// A page with one of the chats of docs/frontends.md, which the test copies to chat.jsx.

import { Client } from "@threadmill/client";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Chat } from "./chat.jsx";

const query = new URLSearchParams(location.search);
const client = new Client({ baseURL: query.get("api") });
createRoot(document.getElementById("root")).render(<StrictMode><Chat client={client} id={location.hash.slice(1)} sender={query.get("name")} /></StrictMode>);
