// A form for a definition, with its JSON beside it. Both are one definition: each follows the other.

import { counter, offWhileLong } from "./counter.js";
import { diff } from "./diff.js";
import { button, fill, h, time } from "./dom.js";
import { ChangedMeanwhile, differences, merged, parsed, problemsByField, readable, same, textOf, typedValue, valueAt, withPart, withValue } from "./draft.js";
import { guard } from "./leaving.js";
import { jsonBytes, textBytes, toldOf } from "./limits.js";
import { server } from "./session.js";

/** @import { Doc, Field, Group, Stored } from "./draft.js" */

/**
 * What a form edits.
 * @typedef {object} Editing
 * @property {string} title
 * @property {Group[]} groups
 * @property {Stored} stored
 * @property {Doc} initial What the form shows at first.
 * @property {Record<string, string[]>} [lists] Suggestions, by name.
 * @property {number} [maxBytes] Of the definition as JSON.
 * @property {(doc: Doc, stored: Stored) => Promise<void>} save It fails with a ChangedMeanwhile if something else is stored than the form knows.
 * @property {() => void} saved
 * @property {() => void} cancel
 */

/** An error of the API. @typedef {Error & { problem?: { errors?: { location?: string, message?: string }[] | null } }} Refused */

/** A field in the document. @typedef {{ field: Field, element: HTMLElement, show: () => void, problem: HTMLElement, control: HTMLElement }} Shown */

/** @param {string[]} path */
const idOf = (path) => `field-${path.join("-")}`;

export class Form extends HTMLElement {
  /** @type {Editing | undefined} */
  editing;
  /** @type {Doc} */
  #doc = {};
  /** @type {Stored} */
  #stored = { doc: undefined };
  /** What is wrong in a field, by path. @type {Map<string, string>} */
  #wrong = new Map();
  /** The paths of those that the server has named. @type {Set<string>} */
  #refusedFields = new Set();
  /** @type {Map<string, Shown>} */
  #fields = new Map();
  #saving = false;
  /** What had the focus when saving began. @type {Element | null} */
  #focused = null;
  #done = false;
  #json = h("textarea", { class: "code", rows: 24, spellcheck: false, "aria-label": "Definition as JSON", "aria-describedby": "json-problem" });
  #jsonProblem = h("p", { class: "error", id: "json-problem", role: "alert", hidden: true });
  #size = h("p", { class: "hint counter", role: "status" });
  #saveButton = h("button", { class: "primary" }, "Save");
  #form = h("fieldset", { class: "form-fields" });
  #conflict = h("div");
  #changes = h("details", { hidden: true });
  #general = h("p", { class: "error", role: "alert", hidden: true });
  #unguard = () => {};
  /** @type {(() => void)[]} */
  #groups = [];

  connectedCallback() {
    const { title, groups, stored, initial, lists = {}, cancel } = /** @type {Editing} */ (this.editing);
    this.#stored = stored;
    this.#doc = initial;
    this.#json.addEventListener("input", () => this.#typed());
    this.#changes.addEventListener("toggle", () => this.#compare());
    fill(
      this.#form,
      groups.map((g) => this.#group(g)),
    );
    fill(
      this,
      h(
        "form",
        {
          class: "definition",
          noValidate: true,
          onsubmit: (/** @type {Event} */ e) => {
            e.preventDefault();
            this.#save();
          },
        },
        h("header", { class: "page-header" }, h("h2", null, title)),
        this.#conflict,
        h(
          "div",
          { class: "beside" },
          this.#form,
          h("section", { class: "json", "aria-label": "JSON" }, h("h3", null, "JSON"), this.#json, this.#jsonProblem, this.#size, this.#changes),
        ),
        h("footer", { class: "save" }, this.#general, h("div", { class: "row" }, this.#saveButton, button("Cancel", cancel))),
        Object.entries(lists).map(([name, values]) =>
          h(
            "datalist",
            { id: `list-${name}` },
            values.map((value) => h("option", { value })),
          ),
        ),
      ),
    );
    this.#show();
    this.#unguard = guard(() => this.unsaved);
    /** @type {HTMLElement | null} */ (this.#form.querySelector("input:not([readonly]), textarea"))?.focus();
  }

  disconnectedCallback() {
    this.#unguard();
  }

  /** Whether something is typed that is not stored. */
  get unsaved() {
    return !this.#done && (!same(this.#doc, /** @type {Editing} */ (this.editing).initial) || this.#wrong.size > 0 || !this.#jsonProblem.hidden);
  }

  /** @param {Group} group */
  #group({ title, open, fields, either, legend = "" }) {
    const elements = fields.map((f) => this.#field(f));
    const choice = either && this.#either(either, legend);
    const has = () => fields.some((f) => valueAt(this.#doc, f.path) !== undefined);
    const details = h("details", { class: "group", open: open || has() }, h("summary", null, h("h3", null, title)), choice?.element, elements);
    this.#groups.push(() => {
      choice?.show();
      if (fields.some((f) => this.#wrong.has(f.path.join(".")))) details.open = true;
    });
    return details;
  }

  /** The choice between parts of a definition of which it has exactly one. @param {NonNullable<Group["either"]>} parts @param {string} legend */
  #either(parts, legend) {
    /** What was typed in the part that is not chosen now. @type {Map<string, unknown>} */
    const kept = new Map();
    const radios = parts.map(({ path, label, initial }) => {
      const radio = h("input", {
        type: "radio",
        name: "either",
        onchange: () => {
          for (const other of parts) {
            if (other.path === path) continue;
            kept.set(other.path, this.#doc[other.path] ?? kept.get(other.path));
            this.#doc = withValue(this.#doc, [other.path], undefined);
          }
          this.#doc = withValue(this.#doc, [path], kept.get(path) ?? initial);
          this.#show();
        },
      });
      return { path, radio, element: h("label", { class: "row" }, radio, label) };
    });
    return {
      element: h(
        "fieldset",
        { class: "either" },
        h("legend", null, legend),
        radios.map(({ element }) => element),
      ),
      show: () => {
        for (const { path, radio } of radios) radio.checked = this.#doc[path] !== undefined;
      },
    };
  }

  /** @param {Field} field */
  #field(field) {
    const id = idOf(field.path);
    const problem = h("span", { class: "error", id: `${id}-problem`, role: "alert", hidden: true });
    const hint = h("span", { class: "hint", id: `${id}-hint` }, field.hint);
    const described = { id, "aria-describedby": `${id}-hint ${id}-problem` };
    const { control, element, show } =
      field.kind === "map"
        ? this.#map(field, described, hint)
        : field.kind === "rows"
          ? this.#rows(field, described, hint)
          : this.#simple(field, described, hint);
    element.append(problem);
    /** @type {Shown} */
    const shown = {
      field,
      element,
      problem,
      control,
      show: () => {
        element.hidden = field.when !== undefined && !field.when(this.#doc);
        show();
      },
    };
    this.#fields.set(field.path.join("."), shown);
    return element;
  }

  /** @param {Field} field @param {Record<string, unknown>} described @param {HTMLElement} hint */
  #simple(field, described, hint) {
    const input = control(field, described, field.fixed === true && this.#stored.doc !== undefined);
    input.addEventListener("input", () => this.#set(field, typedValue(field, content(input))));
    const label = h("span", { class: "title" }, field.label);
    const length = this.#length(field, input);
    return {
      control: input,
      element:
        field.kind === "flag"
          ? h("div", { class: "field" }, h("label", { class: "row" }, input, label), hint)
          : h("div", { class: "field" }, h("label", { for: input.id }, label), input, hint, length?.line),
      show: () => {
        const text = textOf(field, valueAt(this.#doc, field.path));
        input.disabled = text === undefined;
        if (document.activeElement !== input) setContent(input, text ?? "", field.default === true);
        length?.count();
      },
    };
  }

  /** Counts what is typed, if its field has a limit. @param {Field} field @param {Control} input */
  #length({ kind, limit, size = textBytes }, input) {
    if (limit === undefined || input instanceof HTMLSelectElement) return undefined;
    return counter(input, server.limits[limit], { size: (text) => size(kind === "text" ? text.trim() : text, this.#doc) });
  }

  /** Names and a choice for each. @param {Field} field @param {Record<string, unknown>} described @param {HTMLElement} hint */
  #map(field, described, hint) {
    const rows = h("div", { class: "map-rows" });
    const names = field.names ?? { key: "Tool", value: "Policy", add: "Add a tool" };
    const write = () => {
      /** @type {Doc} */
      const out = {};
      for (const row of rows.children) {
        const [name, value] = [.../** @type {NodeListOf<HTMLInputElement | HTMLSelectElement>} */ (row.querySelectorAll("input, select"))].map((one) =>
          one.value.trim(),
        );
        if (name !== "") out[name] = value;
      }
      this.#set(field, { value: Object.keys(out).length > 0 ? out : undefined });
    };
    /** @param {string} name @param {string} value */
    const row = (name, value) => {
      const known = field.options;
      const labels = { "aria-label": `${names.value} of ${name || `the ${names.key.toLowerCase()}`}` };
      const element = h(
        "div",
        { class: "row map-row" },
        h("input", {
          value: name,
          "aria-label": names.key,
          placeholder: known ? "tool, server__* or *" : names.key,
          class: "code",
          autocomplete: "off",
          oninput: write,
        }),
        known
          ? h(
              "select",
              { ...labels, onchange: write },
              [...known, ...(known.some(([one]) => one === value) ? [] : [[value, value]])].map(([one, label]) =>
                h("option", { value: one, selected: one === value }, label),
              ),
            )
          : h("input", { ...labels, value, placeholder: names.value, class: "code", autocomplete: "off", oninput: write }),
        button(
          "×",
          () => {
            element.remove();
            write();
          },
          { class: "quiet", "aria-label": `Remove ${name || `the ${names.key.toLowerCase()}`}` },
        ),
      );
      return element;
    };
    const add = button(
      names.add,
      () => {
        const made = row("", field.options?.[0][0] ?? "");
        rows.append(made);
        /** @type {HTMLElement} */ (made.querySelector("input")).focus();
      },
      { ...described, class: "quiet" },
    );
    return {
      control: add,
      element: h("fieldset", { class: "field" }, h("legend", null, h("span", { class: "title" }, field.label)), hint, rows, add),
      show: () => {
        if (rows.contains(document.activeElement)) return;
        const value = valueAt(this.#doc, field.path);
        add.disabled = textOf(field, value) === undefined;
        fill(rows, add.disabled ? elsewhere() : Object.entries(/** @type {Record<string, string>} */ (value ?? {})).map(([name, one]) => row(name, one)));
      },
    };
  }

  /** A list of objects with fields. What a row has besides them, stays. @param {Field} field @param {Record<string, unknown>} described @param {HTMLElement} hint */
  #rows(field, described, hint) {
    const list = h("ol", { class: "row-list" });
    const value = () => /** @type {Doc[]} */ (valueAt(this.#doc, field.path) ?? []);
    /** @param {Doc[]} rows */
    const write = (rows) => this.#set(field, { value: rows.length > 0 ? rows : undefined });
    /** @param {Doc} doc @param {number} i */
    const row = (doc, i) =>
      h(
        "li",
        null,
        (field.columns ?? []).map((column) => {
          const input = control(column, { id: `${idOf(field.path)}-${i}-${column.path.join("-")}` }, false);
          const text = textOf(column, valueAt(doc, column.path));
          input.disabled = text === undefined;
          setContent(input, text ?? "", false);
          const length = this.#length(column, input);
          input.addEventListener("input", () => {
            const parsed = typedValue(column, content(input));
            if ("value" in parsed) write(value().map((one, at) => (at === i ? withValue(one, column.path, parsed.value) : one)));
          });
          return h("div", { class: "field" }, h("label", { for: input.id }, h("span", { class: "title" }, column.label)), input, length?.line);
        }),
        h(
          "div",
          { class: "row" },
          i > 0 &&
            button(
              "Move up",
              () => {
                const rows = [...value()];
                [rows[i - 1], rows[i]] = [rows[i], rows[i - 1]];
                write(rows);
                draw();
              },
              { class: "quiet" },
            ),
          button(
            "Remove",
            () => {
              write(value().filter((_, at) => at !== i));
              draw();
            },
            { class: "quiet danger" },
          ),
        ),
      );
    const draw = () => {
      const open = textOf(field, valueAt(this.#doc, field.path)) !== undefined;
      add.disabled = !open;
      fill(list, open ? value().map(row) : elsewhere());
    };
    const add = button(
      "Add a rule",
      () => {
        write([...value(), { name: "", effect: "ask" }]);
        draw();
        /** @type {HTMLElement | null} */ (list.querySelector("li:last-child input"))?.focus();
      },
      { ...described, class: "quiet" },
    );
    return {
      control: add,
      element: h("fieldset", { class: "field" }, h("legend", null, h("span", { class: "title" }, field.label)), hint, list, add),
      show: () => {
        if (!list.contains(document.activeElement)) draw();
      },
    };
  }

  /** @param {Field} field @param {ReturnType<typeof typedValue>} typed */
  #set(field, typed) {
    const path = field.path.join(".");
    if (typed.problem !== undefined) this.#wrong.set(path, typed.problem);
    else {
      this.#wrong.delete(path);
      const changed = withValue(this.#doc, field.path, typed.value);
      const { groups } = /** @type {Editing} */ (this.editing);
      this.#doc = groups.reduce((doc, { either = [] }) => withPart(this.#doc, doc, either), changed);
    }
    this.#show();
  }

  /** Takes what is typed as JSON. */
  #typed() {
    const read = parsed(this.#json.value);
    this.#jsonProblem.hidden = read.problem === undefined;
    fill(this.#jsonProblem, read.problem);
    this.#form.disabled = read.problem !== undefined;
    if (read.problem !== undefined) return;
    this.#doc = read.doc;
    this.#wrong.clear();
    this.#show();
  }

  /** Draws what follows from the definition. What has the focus is as the person types it. */
  #show() {
    for (const shown of this.#fields.values()) {
      shown.show();
      const text = this.#wrong.get(shown.field.path.join("."));
      shown.problem.hidden = text === undefined;
      fill(shown.problem, text);
      if (text === undefined && !isLong(shown.control)) shown.control.removeAttribute("aria-invalid");
      else shown.control.setAttribute("aria-invalid", "true");
    }
    this.#groups.forEach((show) => show());
    if (!this.#json.matches(":focus")) this.#json.value = JSON.stringify(this.#doc, null, 2);
    this.#tellLength();
    this.#compare();
  }

  /** Tells how long the definition is, and turns saving off while something is too long. */
  #tellLength() {
    const { maxBytes = Infinity } = /** @type {Editing} */ (this.editing);
    const { text, over } = toldOf(jsonBytes(withoutEmpty(this.#doc)), maxBytes);
    if (this.#size.textContent !== text) fill(this.#size, text);
    this.#size.classList.toggle("error", over);
    this.#json.setCustomValidity(over ? text : "");
    if (!this.#saving) offWhileLong(this.#saveButton, this.querySelectorAll("input, textarea"));
  }

  #compare() {
    const { doc } = this.#stored;
    const changed = doc === undefined ? [] : differences(doc, this.#doc);
    this.#changes.hidden = changed.length === 0;
    if (doc === undefined || changed.length === 0) return;
    const summary = this.#changes.querySelector("summary") ?? this.#changes.appendChild(h("summary"));
    fill(summary, `${changed.length} ${changed.length === 1 ? "change" : "changes"} to what is stored`);
    this.#changes.querySelector("pre")?.remove();
    if (this.#changes.open) this.#changes.append(diff(readable(doc), readable(this.#doc)));
  }

  async #save() {
    if (this.#saving) return;
    this.#say("");
    for (const [path, { field }] of this.#fields) {
      // What the server said may be mended elsewhere, and a field that is hidden is not sent.
      if (this.#refusedFields.has(path) || (field.when && !field.when(this.#doc))) this.#wrong.delete(path);
      if (field.required && !field.when && !valueAt(this.#doc, field.path)) this.#wrong.set(field.path.join("."), "This is needed.");
    }
    this.#show();
    if (!this.#jsonProblem.hidden) return this.#json.focus();
    if (this.#wrong.size > 0) return this.#toProblem();
    this.#refusedFields.clear();
    this.#hold(true);
    try {
      await this.editing?.save(this.#doc, this.#stored);
      this.#done = true;
      this.editing?.saved();
    } catch (error) {
      this.#hold(false);
      if (error instanceof ChangedMeanwhile) this.#changedMeanwhile(error.theirs);
      else if (/** @type {Error} */ (error).name !== "AbortError") this.#refused(/** @type {Refused} */ (error));
    }
  }

  /** Keeps what is being saved as it is. What had the focus has it again afterwards. @param {boolean} is */
  #hold(is) {
    if (is) this.#focused = document.activeElement;
    this.#saving = this.#saveButton.disabled = this.#form.disabled = this.#json.readOnly = is;
    if (!is && this.#focused && this.contains(this.#focused)) /** @type {HTMLElement} */ (this.#focused).focus({ preventScroll: true });
  }

  /** Shows why the server has refused, at the fields that it names. @param {Refused} error */
  #refused(error) {
    const { errors } = error.problem ?? {};
    const byField = problemsByField(
      errors ?? [],
      [...this.#fields.values()].map(({ field }) => field),
    );
    const general = byField.get("") ?? (byField.size > 0 ? "" : error.message);
    byField.delete("");
    this.#wrong = byField;
    for (const path of byField.keys()) this.#refusedFields.add(path);
    this.#show();
    this.#say([general, byField.size > 0 && "It is not saved: see the fields above."].filter(Boolean).join(" "));
    this.#toProblem();
  }

  /** @param {string} text */
  #say(text) {
    this.#general.hidden = text === "";
    fill(this.#general, text);
  }

  #toProblem() {
    const [path] = this.#wrong.keys();
    const shown = path === undefined ? undefined : this.#fields.get(path);
    shown?.control.focus();
    shown?.element.scrollIntoView({ block: "nearest" });
  }

  /** Says what somebody else has stored, and keeps what is typed. @param {Stored} theirs */
  #changedMeanwhile(theirs) {
    const base = this.#stored.doc ?? {};
    const { doc, both } = merged(base, this.#doc, theirs.doc ?? {});
    const who = theirs.by || "Somebody else";
    const names = (/** @type {string[]} */ paths) => paths.flatMap((path, i) => [i > 0 && ", ", h("code", null, path)]);
    const what = theirs.doc === undefined ? " has deleted it" : theirs.version ? ` has stored version ${theirs.version}` : " has changed it";
    const take = (/** @type {Doc} */ next) => {
      this.#stored = theirs;
      this.#doc = next;
      this.#wrong.clear();
      fill(this.#conflict);
      this.#json.blur();
      this.#show();
    };
    const theirDoc = theirs.doc;
    fill(
      this.#conflict,
      h(
        "section",
        { class: "conflict", role: "alert", tabIndex: -1 },
        h(
          "p",
          null,
          h("strong", null, who),
          what,
          theirs.at && [" at ", time(theirs.at)].flat(),
          " while you were editing. Nothing of yours is lost, and nothing is saved yet.",
        ),
        theirDoc !== undefined && h("p", null, "They changed ", names(differences(base, theirDoc)), "."),
        both.length > 0 && h("p", { class: "warning" }, "You have both changed ", names(both), "."),
        theirDoc !== undefined && h("details", null, h("summary", null, "What they changed"), diff(readable(base), readable(theirDoc))),
        h(
          "div",
          { class: "row" },
          button(
            theirDoc === undefined ? "Go on with mine" : both.length > 0 ? "Join both, mine where we differ" : "Join both",
            () => take(theirDoc === undefined ? this.#doc : doc),
            {
              class: "primary",
            },
          ),
          theirDoc !== undefined && button("Drop mine", () => take(theirDoc), { class: "danger" }),
        ),
      ),
    );
    /** @type {HTMLElement} */ (this.#conflict.firstElementChild).focus();
    this.#conflict.scrollIntoView({ block: "nearest" });
  }
}

/** What the server keeps of a definition: nothing that is empty. @param {Doc} doc @returns {Doc} */
const withoutEmpty = (doc) => Object.fromEntries(Object.entries(doc).filter(([, value]) => value !== ""));

/** Whether what is typed in a field is too long. @param {HTMLElement} control */
const isLong = (control) => (control instanceof HTMLInputElement || control instanceof HTMLTextAreaElement) && control.validity.customError;

const elsewhere = () => h("p", { class: "hint" }, "This is edited in the JSON.");

/** @typedef {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} Control */

/** @param {Field} field @param {Record<string, unknown>} described @param {boolean} fixed @returns {Control} */
function control(field, described, fixed) {
  const { kind, required = false } = field;
  const common = { ...described, required, "aria-required": required ? "true" : undefined };
  switch (kind) {
    case "prose":
    case "lines":
    case "json":
      return h("textarea", { ...common, rows: field.rows ?? 3, class: kind === "prose" ? undefined : "code", spellcheck: kind === "prose" });
    case "flag":
      return h("input", { ...described, type: "checkbox" });
    case "choice":
      return h(
        "select",
        common,
        h("option", { value: "" }, "default"),
        (field.options ?? []).map(([value, label]) => h("option", { value }, label)),
      );
  }
  return h("input", {
    ...common,
    readOnly: fixed,
    autocomplete: "off",
    list: field.list && `list-${field.list}`,
    inputMode: kind === "integer" ? "numeric" : kind === "number" ? "decimal" : undefined,
  });
}

/** @param {Control} input */
const content = (input) => (input instanceof HTMLInputElement && input.type === "checkbox" ? String(input.checked) : input.value);

/** @param {Control} input @param {string} text @param {boolean} [unset] What a box is without a value. */
function setContent(input, text, unset) {
  if (input instanceof HTMLInputElement && input.type === "checkbox") input.checked = text === "" ? unset === true : text === "true";
  else if (input.value !== text) input.value = text;
}

customElements.define("tm-form", Form);
