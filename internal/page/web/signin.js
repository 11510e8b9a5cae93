// The view in which people sign in with an API key. It lies over the page, so that what is open there stays.

import { fill, h } from "./dom.js";
import { ROLES, refusal } from "./roles.js";
import { load, signIn, signOut, storedKey } from "./session.js";

/** @import { APIError } from "./client/threadmill.js" */

export class SignIn extends HTMLElement {
  /** Why the page stays closed. @type {APIError | undefined} */
  error;
  /** Is called once a key is accepted. */
  done = () => {};
  #why = h("div", { role: "alert" });

  connectedCallback() {
    const key = h("input", { id: "key", type: "password", autocomplete: "off", required: true, spellcheck: false, "aria-describedby": "key-hint" });
    const reveal = h("input", { type: "checkbox", onchange: () => (key.type = reveal.checked ? "text" : "password") });
    const submit = h("button", { class: "primary" }, "Sign in");
    if (this.error) this.#explain(this.error, storedKey());
    fill(
      this,
      h(
        "main",
        { class: "card sign-in" },
        h("h1", null, h("img", { src: "/page/icon.svg", alt: "", width: 28, height: 28 }), " Threadmill"),
        this.#why,
        h(
          "form",
          {
            onsubmit: async (/** @type {Event} */ e) => {
              e.preventDefault();
              submit.disabled = true;
              const text = key.value.trim();
              signIn(text);
              try {
                await load();
                this.remove();
                this.done();
              } catch (error) {
                this.#explain(/** @type {APIError} */ (error), text);
                signOut();
                key.select();
              } finally {
                submit.disabled = false;
              }
            },
          },
          h("label", { for: "key" }, "API key"),
          key,
          h("label", { class: "row" }, reveal, "Show the key"),
          h("p", { class: "hint", id: "key-hint" }, "It begins with tmk_, and stays in this tab until you close the tab or sign out."),
          submit,
        ),
        h(
          "details",
          null,
          h("summary", null, "How do I get a key, and what does it allow?"),
          h("p", null, "An administrator creates it:"),
          h("pre", { class: "code", tabIndex: 0 }, "starter keys create ann --roles read,post,approve"),
          rolesList(),
        ),
      ),
    );
    key.focus();
  }

  /** @param {APIError} why @param {string} key */
  #explain(why, key) {
    const { title, text, error } = refusal(why, key);
    fill(this.#why, h("h2", null, title), h("p", { class: error ? "error" : "hint" }, text));
  }
}

/** The roles with what they allow. @param {readonly string[]} [has] Those that the person has: the others are marked as missing. */
export function rolesList(has) {
  return h(
    "ul",
    { class: "plain roles" },
    ROLES.map(([role, allows]) => {
      const missing = has !== undefined && !has.includes(role);
      return h(
        "li",
        { class: missing ? "missing" : undefined },
        h("code", null, role),
        missing && h("span", { class: "badge" }, "you do not have it"),
        h("span", { class: "hint" }, ` ${allows}`),
      );
    }),
  );
}

customElements.define("tm-sign-in", SignIn);
