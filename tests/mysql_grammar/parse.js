// Parses each file of a folder with the grammar of MySQL Workbench, and prints what is no MySQL.

const { readdirSync, readFileSync } = require("node:fs");
const { join } = require("node:path");
const { default: Parser } = require("ts-mysql-parser");

const [folder, version] = process.argv.slice(2);
const parser = new Parser({ version });
const names = readdirSync(folder).filter((name) => name.endsWith(".sql"));
let wrong = 0;
for (const name of names) {
  const statement = readFileSync(join(folder, name), "utf8").replaceAll(/%\(\w+\)s|%s/g, "?").replaceAll("%%", "%");
  const { lexerError, parserError } = parser.parse(statement);
  const problem = lexerError ?? parserError;
  if (!problem) continue;
  wrong += 1;
  console.log(`${problem.message}: ${statement}`);
}
console.log(`${names.length} statements, of which ${wrong} are not in the grammar of MySQL ${version}`);
process.exitCode = Number(wrong > 0 || names.length === 0);
