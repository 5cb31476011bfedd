// The schema as the server describes it, for the documentation beside the editor.
import { answerTo } from "../api/request";

export interface TypeRef {
  name: string | null;
  kind: string;
  ofType?: TypeRef | null;
}

interface Member {
  name: string;
  description: string | null;
  deprecationReason?: string | null;
  type?: TypeRef;
  args?: readonly Member[];
}

export interface SchemaType {
  name: string;
  kind: string;
  description: string | null;
  fields: readonly Member[] | null;
  inputFields: readonly Member[] | null;
  enumValues: readonly Member[] | null;
}

const REF = "name kind ofType { name kind ofType { name kind ofType { name kind } } }";
const DOCUMENT = `query Schema { schema: __schema { types { name kind description
  fields(includeDeprecated: true) { name description deprecationReason type { ${REF} }
    args { name description type { ${REF} } } }
  inputFields { name description type { ${REF} } }
  enumValues(includeDeprecated: true) { name description deprecationReason } } } }`;

const ROOTS = ["Query", "Mutation", "Subscription"];

/** The types of the schema: the operations first, then by name. */
export async function loadTypes(): Promise<SchemaType[]> {
  const answer = JSON.parse(await answerTo(DOCUMENT, {})) as { data?: { schema: { types: SchemaType[] } } | null };
  if (!answer.data) throw new Error("the schema was refused");
  const rank = ({ name }: SchemaType): number => (ROOTS.indexOf(name) + 1 || ROOTS.length + 1) - 1;
  return answer.data.schema.types
    .filter(({ name }) => !name.startsWith("__"))
    .toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

/** The members of a type, whatever its kind. */
export function membersOf(type: SchemaType): readonly Member[] {
  return type.fields ?? type.inputFields ?? type.enumValues ?? [];
}

/** The type as GraphQL writes it, such as `[Run!]!`, and the name of the type itself. */
export function written(of: TypeRef): { text: string; name: string } {
  const inner = of.ofType ? written(of.ofType) : { text: of.name ?? "", name: of.name ?? "" };
  if (of.kind === "NON_NULL") return { text: `${inner.text}!`, name: inner.name };
  if (of.kind === "LIST") return { text: `[${inner.text}]`, name: inner.name };
  return inner;
}

/** The types whose name, or the name of a member, contains the text. */
export function findTypes(types: readonly SchemaType[], text: string): readonly SchemaType[] {
  const wanted = text.trim().toLowerCase();
  const has = (name: string): boolean => name.toLowerCase().includes(wanted);
  return types.filter((type) => has(type.name) || membersOf(type).some(({ name }) => has(name)));
}
