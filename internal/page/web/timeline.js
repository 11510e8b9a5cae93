// The lines of a thread, made of its events. It has no effects: thread.js shows the lines.

/** @import { AgentEvent } from "./client/threadmill.js" */
/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["ApprovalRequest"]} ApprovalRequest */
/** @typedef {components["schemas"]["Approval"]} Approval */
/** @typedef {components["schemas"]["ClientCall"]} ClientCall */
/** @typedef {components["schemas"]["InputRequest"]} InputRequest */
/** @typedef {components["schemas"]["InputReceived"]} InputReceived */
/** @typedef {components["schemas"]["StatusChange"]} StatusChange */
/** @typedef {components["schemas"]["Retrieval"]} Retrieval */

/**
 * @typedef {object} Line
 * @property {string} key Unique among the lines, and the same in every view of the thread.
 * @property {"message" | "tool" | "status" | "error" | "gap" | "event"} kind
 * @property {number} version Grows with each change.
 * @property {string} [place] The place of the line's first stored event, for permalinks.
 * @property {string} [eventId] The event of the turn.
 * @property {string} [agent]
 * @property {string} [createdAt]
 * @property {string} [text] Of a message, a status, an error or a gap.
 * @property {string} [sender]
 * @property {string} [role] Of a message: user, assistant or system.
 * @property {string} [messageId]
 * @property {components["schemas"]["Usage"]} [usage] Of a reply: the tokens of its model call.
 * @property {number} [durationMs] Of a reply: how long its model call took.
 * @property {string} [postedAt] Of a message that waited in the queue: when it was posted.
 * @property {Retrieval} [found] Of a reply: the passages that it may cite by their place, and what was known.
 * @property {string} [thought]
 * @property {number} [attempt]
 * @property {"streaming" | "stored" | "final" | "interrupted" | "failed"} [state] Of a message.
 * @property {string} [error] Why a message failed.
 * @property {string} [callId] Of a tool call.
 * @property {string} [name]
 * @property {string} [args]
 * @property {Piece[]} [progress] Its newest pieces.
 * @property {number} [progressed] How many pieces there were.
 * @property {string} [output]
 * @property {boolean} [failed] Of a tool call: its result is an error.
 * @property {ApprovalRequest} [request]
 * @property {Approval[]} [decisions]
 * @property {ClientCall} [call]
 * @property {InputRequest} [input] The last request for input.
 * @property {InputReceived[]} [inputs] The answers.
 * @property {StatusChange} [status]
 * @property {components["schemas"]["EnvEvent"]} [event]
 * @property {string} [rule] The rule that handled the event.
 * @property {string} [repeats] Of the status of a failed turn: the key of the line that shows the error already.
 */

/**
 * @typedef {object} Piece A piece of a tool's progress.
 * @property {string} text
 * @property {boolean} [error] Whether it is what a command wrote to its standard error.
 */

/**
 * @typedef {object} Turn
 * @property {string} id The event.
 * @property {string} text What it is about.
 * @property {boolean} begun Whether an agent has begun to work on it.
 */

/** The most pieces of progress that a call keeps. */
const MAX_PROGRESS = 500;

/** @param {{ eventId?: string, agent?: string }} of */
const passagesKey = (of) => `${of.eventId} ${of.agent}`;

export class Timeline {
  constructor() {
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Map<string, Line>} */
    this.byKey = new Map();
    /** How often lines have come or gone. */
    this.changes = 0;
    /** The turns that have not ended, in order. @type {Map<string, Turn>} */
    this.turns = new Map();
    /** Turns that failed and were not retried. @type {Set<string>} */
    this.failed = new Set();
    /** Turns that have ended. @type {Set<string>} */
    this.ended = new Set();
    /** Turns that failed once, and were retried or set by hand. @type {Set<string>} */
    this.settled = new Set();
    /** The last line that shows an error of a turn, by event. @type {Map<string, string>} */
    this.errors = new Map();
    /** @type {Set<string>} */
    this.agents = new Set();
    /** What agents were given, by the event of the turn and the agent. @type {Map<string, Retrieval>} */
    this.found = new Map();
    /** Model calls that are retried, by event. @type {Map<string, NonNullable<StatusChange["retry"]>>} */
    this.retrying = new Map();
  }

  /** The turn in progress: the first that an agent works on, or else the first. */
  get current() {
    const turns = [...this.turns.values()];
    return turns.find((t) => t.begun) ?? turns[0];
  }

  /** The calls that wait for a person. */
  get waiting() {
    return this.lines.filter((l) => l.kind === "tool" && (isWaiting(l) || inputOf(l)));
  }

  /**
   * Applies an event and returns the lines that it changed.
   * @param {AgentEvent} e
   * @param {string} [place] Of a stored event.
   * @returns {Line[]}
   */
  apply(e, place) {
    const stored = e.createdAt !== undefined ? place : undefined;
    if (e.agent) this.agents.add(e.agent);
    const turn = e.eventId ? this.turns.get(e.eventId) : undefined;
    if (turn && e.agent) turn.begun = true;
    // A reset and an empty piece begin the next attempt, which has not said anything yet.
    const begins = e.type === "reset" || (e.type === "stream" && e.content === "");
    if (e.eventId && e.type !== "status" && !begins) this.retrying.delete(e.eventId);
    if (isShownEvent(e)) return [];
    switch (e.type) {
      case "message":
        return this.#message(e, stored);
      case "stream":
      case "thought":
        return this.#piece(e);
      case "reset":
        return this.#reset(e);
      case "final":
        return this.#change(messageKey(e.messageId), (l) => {
          l.state = l.state === "interrupted" ? l.state : "final";
          l.found = this.found.get(passagesKey(l));
        });
      case "retrieval":
        this.found.set(passagesKey(e), e.retrieval);
        return [];
      case "error":
        return this.#error(e, stored);
      case "tool_call":
        return this.#tool(e, stored, (l) => Object.assign(l, { name: e.toolName, args: e.toolArgs }));
      case "tool_progress":
        return this.#tool(e, stored, (l) => {
          l.progress = [...(l.progress ?? []), pieceOf(e)].slice(-MAX_PROGRESS);
          l.progressed = (l.progressed ?? 0) + 1;
        });
      case "tool_result":
        return this.#tool(e, stored, (l) => Object.assign(l, { output: e.output, failed: e.isError === true }));
      case "approval_request":
        return this.#tool({ ...e, toolCallId: e.request.toolCallId, toolName: e.request.toolName }, stored, (l) => {
          l.request = e.request;
          l.args ??= e.request.arguments;
        });
      case "approval":
        return this.#tool({ ...e, toolCallId: e.approval.toolCallId, toolName: e.approval.toolName }, stored, (l) => {
          l.decisions = [...(l.decisions ?? []), e.approval];
        });
      case "client_call":
        return this.#tool({ ...e, toolCallId: e.call.toolCallId, toolName: e.call.toolName }, stored, (l) => {
          l.call = e.call;
          l.args ??= e.call.arguments;
        });
      case "input_request":
        return this.#tool({ ...e, toolCallId: e.input.toolCallId, toolName: e.input.toolName }, stored, (l) => (l.input = e.input));
      case "input_received":
        return this.#tool(
          { ...e, toolCallId: e.received.toolCallId, toolName: e.received.toolName },
          stored,
          (l) => (l.inputs = [...(l.inputs ?? []), e.received]),
        );
      case "status":
        return this.#status(e, stored);
      case "environment":
        return this.#environment(e, stored);
      case "gap":
        return this.#add({
          key: `gap:${place ?? this.lines.length}`,
          kind: "gap",
          version: 0,
          text: e.detail ?? "Some live output was lost. The complete messages follow.",
        });
    }
    return []; // a type of a later version
  }

  /**
   * Puts the lines of earlier events before these. Lines that both have, such as a call and its result,
   * become one.
   * @param {Timeline} earlier
   */
  prepend(earlier) {
    /** @type {Set<Line>} */
    const merged = new Set();
    for (const line of earlier.lines) {
      const known = this.byKey.get(line.key);
      if (known) {
        merged.add(known);
        const { decisions, inputs } = line;
        for (const [field, value] of Object.entries(known)) {
          if (value !== undefined && field !== "place" && field !== "createdAt") Reflect.set(line, field, value);
        }
        line.decisions = decisions && known.decisions ? [...decisions, ...known.decisions] : (decisions ?? known.decisions);
        line.inputs = inputs && known.inputs ? [...inputs, ...known.inputs] : (inputs ?? known.inputs);
      }
      this.byKey.set(line.key, line);
    }
    this.lines = [...earlier.lines, ...this.lines.filter((line) => !merged.has(line))];
    this.changes++;
    this.turns = new Map([...[...earlier.turns].filter(([id]) => !this.ended.has(id)), ...this.turns]);
    for (const id of earlier.failed) if (!this.settled.has(id)) this.failed.add(id);
    for (const agent of earlier.agents) this.agents.add(agent);
    for (const [key, found] of earlier.found) this.found.set(key, found);
    for (const id of earlier.ended) this.ended.add(id);
    for (const id of earlier.settled) this.settled.add(id);
    for (const [id, key] of earlier.errors) if (!this.errors.has(id)) this.errors.set(id, key);
    for (const line of this.lines) {
      if (line.state === "final" && !line.found && earlier.found.has(passagesKey(line))) {
        line.found = earlier.found.get(passagesKey(line));
        line.version++;
      }
      if (line.status && isFailure(line.status) && !line.repeats && earlier.errors.has(line.eventId ?? "")) {
        line.repeats = earlier.errors.get(line.eventId ?? "");
        line.version++;
      }
    }
  }

  /** @param {Line} line */
  #add(line) {
    const known = this.byKey.get(line.key);
    if (known) {
      Object.assign(known, line, { version: known.version + 1 });
      return [known];
    }
    this.byKey.set(line.key, line);
    this.lines.push(line);
    this.changes++;
    return [line];
  }

  /** @param {string} key @param {(line: Line) => void} change */
  #change(key, change) {
    const line = this.byKey.get(key);
    if (!line) return [];
    change(line);
    line.version++;
    return [line];
  }

  /** @param {Extract<AgentEvent, { type: "message" }>} e @param {string} [place] */
  #message(e, place) {
    const m = e.message;
    if (e.eventId === m.id && m.senderType !== "agent") this.turns.set(m.id, { id: m.id, text: m.content, begun: false });
    const known = this.byKey.get(messageKey(m.id));
    // A reply that only calls tools says nothing.
    if (m.content === "" && m.senderType === "agent" && !known?.thought) {
      if (!known) return [];
      this.changes++;
      this.byKey.delete(known.key);
      this.lines.splice(this.lines.indexOf(known), 1);
      return [known];
    }
    return this.#add({
      key: messageKey(m.id),
      kind: "message",
      version: 0,
      messageId: m.id,
      place: known?.place ?? place,
      eventId: e.eventId,
      createdAt: e.createdAt,
      agent: m.senderType === "agent" ? (e.agent ?? m.senderId) : undefined,
      sender: m.senderId,
      role: m.role,
      text: m.content,
      postedAt: m.postedAt ?? known?.postedAt,
      usage: m.usage ?? known?.usage,
      durationMs: m.durationMs ?? known?.durationMs,
      error: undefined,
      state: m.interrupted ? "interrupted" : known?.state === "final" ? "final" : "stored",
    });
  }

  /** @param {Extract<AgentEvent, { type: "stream" | "thought" }>} e */
  #piece(e) {
    const key = messageKey(e.messageId);
    let line = this.byKey.get(key);
    if (!line) {
      [line] = this.#add({
        key,
        kind: "message",
        version: 0,
        messageId: e.messageId,
        eventId: e.eventId,
        agent: e.agent,
        sender: e.agent,
        role: "assistant",
        text: "",
        thought: "",
        attempt: e.attempt,
        state: "streaming",
      });
    }
    if (line.state !== "streaming" || (e.attempt ?? 0) < (line.attempt ?? 0)) return [];
    line.attempt = e.attempt;
    if (e.type === "thought") line.thought = (line.thought ?? "") + e.content;
    else line.text = (line.text ?? "") + e.content;
    line.version++;
    return [line];
  }

  /** @param {Extract<AgentEvent, { type: "reset" }>} e */
  #reset(e) {
    return this.#change(messageKey(e.messageId), (l) => {
      if (l.state === "stored" || l.state === "final") return;
      Object.assign(l, { text: "", thought: "", attempt: e.attempt, state: "streaming", error: undefined });
    });
  }

  /** @param {Extract<AgentEvent, { type: "error" }>} e @param {string} [place] */
  #error(e, place) {
    const changed = this.#change(messageKey(e.messageId), (l) => Object.assign(l, { state: "failed", error: e.error }));
    const key = changed.length > 0 ? messageKey(e.messageId) : `x:${place ?? e.eventId}`;
    if (e.eventId) this.errors.set(e.eventId, key);
    if (changed.length > 0) return changed;
    return this.#add({
      key,
      kind: "error",
      version: 0,
      place,
      eventId: e.eventId,
      agent: e.agent,
      createdAt: e.createdAt,
      text: e.error,
    });
  }

  /**
   * @param {{ toolCallId?: string, toolName: string, eventId?: string, agent?: string, messageId?: string, createdAt?: string }} e
   * @param {string | undefined} place
   * @param {(line: Line) => void} change
   */
  #tool(e, place, change) {
    const key = `t:${e.toolCallId ?? e.toolName}`;
    if (!this.byKey.has(key)) {
      this.#add({
        key,
        kind: "tool",
        version: 0,
        callId: e.toolCallId,
        name: e.toolName,
        place,
        eventId: e.eventId,
        agent: e.agent,
        messageId: e.messageId,
        createdAt: e.createdAt,
      });
    }
    return this.#change(key, change);
  }

  /** @param {Extract<AgentEvent, { type: "environment" }>} e @param {string} [place] */
  #environment(e, place) {
    const key = eventKey(e.event.id);
    const known = this.byKey.get(key);
    if (!known && e.eventId) this.turns.set(e.eventId, { id: e.eventId, text: e.event.type, begun: false });
    return this.#add({
      key,
      kind: "event",
      version: 0,
      place: known?.place ?? place,
      eventId: e.eventId,
      createdAt: known?.createdAt ?? e.createdAt,
      event: e.event,
    });
  }

  /** @param {Extract<AgentEvent, { type: "status" }>} e @param {string} [place] */
  #status(e, place) {
    const s = e.status;
    switch (s.status) {
      case "retrying":
        if (e.eventId && s.retry) this.retrying.set(e.eventId, s.retry);
        return [];
      case "turn_ended":
        return this.#turnEnded(e, place);
      case "retried":
        if (e.eventId) {
          this.failed.delete(e.eventId);
          this.errors.delete(e.eventId);
          this.settled.add(e.eventId);
          this.ended.delete(e.eventId);
          this.turns.set(e.eventId, { id: e.eventId, text: this.byKey.get(messageKey(e.eventId))?.text ?? "", begun: false });
        }
        break;
      case "completed":
      case "expired":
      case "overwritten":
        if (e.eventId) {
          this.failed.delete(e.eventId);
          this.settled.add(e.eventId);
          this.turns.delete(e.eventId);
        }
    }
    return this.#add({
      key: `s:${place ?? `${e.eventId}.${s.status}`}`,
      kind: "status",
      version: 0,
      place,
      eventId: e.eventId,
      agent: e.agent,
      createdAt: e.createdAt,
      status: s,
    });
  }

  /** @param {Extract<AgentEvent, { type: "status" }>} e @param {string} [place] */
  #turnEnded(e, place) {
    const s = e.status;
    const ended = [e.eventId, ...(s.joined ?? [])].filter((id) => id !== undefined);
    for (const id of ended) {
      this.turns.delete(id);
      this.ended.add(id);
      this.retrying.delete(id);
    }
    /** @type {Line[]} */
    const changed = [];
    for (const line of this.lines) {
      if (line.eventId && ended.includes(line.eventId) && line.state === "streaming") {
        line.state = s.turn === "failed" ? "failed" : "interrupted";
        line.version++;
        changed.push(line);
      }
    }
    for (const id of ended) {
      changed.push(
        ...this.#change(eventKey(id), (l) => {
          if (s.rule) l.rule = s.rule;
        }),
      );
    }
    if (s.turn === "completed" || s.turn === "unanswered" || s.turn === "held") return changed;
    if (s.turn === "failed" && e.eventId) this.failed.add(e.eventId);
    return changed.concat(
      this.#add({
        key: `s:${place ?? `${e.eventId}.ended`}`,
        kind: "status",
        version: 0,
        place,
        eventId: e.eventId,
        createdAt: e.createdAt,
        status: s,
        repeats: isFailure(s) ? this.errors.get(e.eventId ?? "") : undefined,
      }),
    );
  }
}

/** @param {string} [id] */
function messageKey(id) {
  return `m:${id}`;
}

/**
 * Whether an event only shows an agent an environment event, which people see as it is.
 * @param {AgentEvent} e
 */
function isShownEvent(e) {
  const id = e.type === "message" ? e.message.id : e.type === "tool_call" || e.type === "tool_result" ? e.messageId : undefined;
  return id !== undefined && (id === `${e.eventId}.observed` || id === `${e.eventId}.asked`);
}

/** @param {string} id */
function eventKey(id) {
  return `e:${id}`;
}

/** @param {Pick<Extract<AgentEvent, { type: "tool_progress" }>, "data" | "toolName">} e @returns {Piece} */
function pieceOf({ data, toolName }) {
  const { subtype, content, data: reported } = /** @type {{ subtype?: string, content?: unknown, data?: unknown }} */ (data ?? {});
  if (subtype === "task_progress") return pieceOf({ data: reported, toolName });
  if (typeof content === "string" && (subtype === "stdout_chunk" || subtype === "stderr_chunk")) return { text: content, error: subtype === "stderr_chunk" };
  // What a sub-agent says comes in fragments; every other piece is a line.
  if (typeof data === "string") return { text: toolName === "call_agent" ? data : `${data}\n` };
  return { text: `${JSON.stringify(data)}\n` };
}

/** Whether a status is the end of a failed turn. @param {StatusChange} s */
export function isFailure(s) {
  return s.status === "turn_ended" && s.turn === "failed";
}

/** Whether two names are those of the same person. @param {string} a @param {string} b */
export function samePerson(a, b) {
  return a.trim().toLowerCase() === b.trim().toLowerCase();
}

/**
 * The request of a call with all approvals so far: those that the request had when it was stored or
 * repeated, and those that came since.
 * @param {Line} line @returns {ApprovalRequest | undefined}
 */
export function requestOf(line) {
  const { request } = line;
  if (!request || (request.quorum ?? 1) < 2) return request;
  const votes = [...(request.votes ?? [])];
  for (const d of line.decisions ?? []) {
    if (d.missing && d.decision === "approve" && (d.round ?? 0) === (request.round ?? 0) && !votes.some((v) => samePerson(v.by, d.by))) {
      votes.push({ by: d.by, at: d.decidedAt, reason: d.reason });
    }
  }
  return { ...request, votes };
}

/** The request for input that a call waits for. @param {Line} line */
export function inputOf(line) {
  const { input, inputs = [], output } = line;
  return input && output === undefined && !inputs.some((a) => a.round >= input.round) ? input : undefined;
}

/** The last decision that settles the call, if there is one. @param {Line} line */
export function settled(line) {
  const last = line.decisions?.findLast((d) => d.decision !== "revoked" && !d.missing);
  return last && (last.round ?? 0) >= (line.request?.round ?? 0) ? last : undefined;
}

/** Whether a call waits for a person. @param {Line} line */
export function isWaiting(line) {
  return line.request !== undefined && line.output === undefined && settled(line) === undefined;
}
