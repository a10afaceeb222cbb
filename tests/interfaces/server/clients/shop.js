// Reads a shop with node-postgres; prints a line for each thing that it finds.
const { Client } = require("pg");

async function main() {
  const client = new Client({ connectionString: process.argv[2] });
  await client.connect();
  const one = await client.query("SELECT id, name FROM customers WHERE id = $1", [2]);
  console.log(JSON.stringify(one.rows));
  const first = await client.query({ text: "SELECT id, price, good FROM sales ORDER BY id LIMIT 1", rowMode: "array" });
  console.log(JSON.stringify(first.rows));
  const about = await client.query("SELECT current_database(), count(*) FROM pg_class WHERE relnamespace = 2200");
  console.log(JSON.stringify(about.rows));
  console.log((await client.query("SELECT count(*) FROM sales")).rows[0].count);
  await client.query("LISTEN changes");
  await client.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
