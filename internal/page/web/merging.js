// The dialog in which a person chooses what an entity is merged into.

import { ask } from "./dialog.js";
import { plural } from "./documentparts.js";
import { fill, h } from "./dom.js";
import { client } from "./session.js";

/** @import { components } from "./client/api.js" */
/** @typedef {components["schemas"]["Entity"]} Entity */

/** The most entities that are offered; a search narrows them. */
const OFFERED = 8;

/** Asks for the entity into which another one is merged. @param {Entity} from @returns {Promise<Entity | undefined>} Undefined if the person gives it up. */
export async function chooseEntity(from) {
  /** @type {Entity | undefined} */
  let chosen;
  let timer = 0,
    asked = 0;
  const list = h("fieldset", { class: "options" });
  const state = h("p", { class: "hint", role: "status" });
  const merge = h("button", { value: "merge", class: "primary", disabled: true }, "Merge");
  /** @param {Entity} e */
  const choose = (e) => {
    chosen = e;
    merge.disabled = false;
    fill(merge, `Merge into ${e.name}`);
  };
  const offer = async () => {
    const mine = ++asked,
      search = box.value.trim();
    try {
      const page = await client.request("GET /v1/entities", { query: { search, type: search === "" ? from.type : undefined, limit: OFFERED + 1 } });
      if (mine !== asked) return; // another search has begun
      const offered = page.entities.filter((e) => e.id !== from.id).slice(0, OFFERED);
      fill(state, offered.length === 0 && "Nobody and nothing else has such a name.");
      fill(
        list,
        h("legend", null, "Which one is the same?"),
        offered.map((e) =>
          h(
            "label",
            null,
            h("input", { type: "radio", name: "into", checked: e.id === chosen?.id, onchange: () => choose(e) }),
            h("span", { class: "grow" }, e.name, h("span", { class: "badge" }, e.type)),
            h("span", { class: "hint" }, plural(e.mentions, "mention")),
          ),
        ),
      );
      list.hidden = offered.length === 0;
    } catch (error) {
      fill(state, /** @type {Error} */ (error).message);
    }
  };
  const box = h("input", {
    type: "search",
    placeholder: "Search names",
    "aria-label": "Search names",
    maxLength: 200,
    autofocus: true,
    oninput: () => {
      clearTimeout(timer);
      timer = window.setTimeout(offer, 200);
    },
    onkeydown: (/** @type {KeyboardEvent} */ e) => e.key === "Enter" && e.preventDefault(), // it searches; it does not merge
  });
  offer();
  const title = `Merge ${from.name} into another`;
  const answer = await ask(
    h(
      "dialog",
      { "aria-label": title },
      h(
        "form",
        { method: "dialog" },
        h("h2", null, title),
        h("p", null, "The other one gets its mentions, names and descriptions. The merge can be undone."),
        box,
        state,
        list,
        h("div", { class: "row" }, merge, h("button", { value: "" }, "Cancel")),
      ),
    ),
  );
  return answer === "merge" ? chosen : undefined;
}
