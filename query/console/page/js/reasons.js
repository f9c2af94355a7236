// Why a reading is refused, in words: the reasons of docs/reference/payloads.md.

const meanings = {
  undecodable: "it can't be read in its format",
  "content-type": "its content type, or its first bytes, are of no known format",
  empty: "it has no payload, or no value",
  tenant: "it names no tenant, or an invalid one",
  "other-tenant": "its topic is bound to another tenant",
  device: "it names no device, or an invalid id",
  time: "its time is missing, or is none",
  name: "the name of a metric, label or tag is not allowed",
  value: "a value is of no type that is stored",
  label: "labels or tags are not texts",
  schema: "the registry does not have its schema",
  past: "its time lies before what is accepted, and no backfill covers it",
  future: "its time lies too far in the future",
  expired: "it was older than the retention when it was published",
  "unknown-tenant": "its tenant is not registered",
  "too-large": "it is too large to be stored",
  limit: "it is above a limit of the tenant",
  unstorable: "the store refuses it for good",
  unreadable: "its batch is damaged, or too large",
};

/** meaning returns what a reason means; "" for one that is not known. */
export function meaning(reason) {
  return meanings[reason] ?? "";
}
