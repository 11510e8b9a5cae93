// Ids that the page gives: a request that is repeated with the same id does nothing again.

/** A new id. Only pages of https and localhost have UUIDs. */
export const newId = () => crypto.randomUUID?.() ?? `page-${Date.now()}-${Math.random().toString(36).slice(2)}`;
