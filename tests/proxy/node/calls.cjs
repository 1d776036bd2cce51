// Make calls with an SDK's default client, and print a line of JSON for each: its status.
// usage: node calls.cjs openai|anthropic URL COUNT
const [vendor, url, count] = process.argv.slice(2);
const messages = [{ role: "user", content: "hello" }];

const ask = {
  openai: () => {
    const OpenAI = require("openai").OpenAI;
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "mine" });
    return () => client.chat.completions.create({ model: "scripted", messages });
  },
  anthropic: () => {
    const Anthropic = require("@anthropic-ai/sdk").Anthropic;
    const client = new Anthropic({ baseURL: url, apiKey: "mine" });
    return () => client.messages.create({ model: "scripted", max_tokens: 50, messages });
  },
}[vendor]();

(async () => {
  for (let made = 0; made < Number(count); made++) {
    let said;
    try {
      await ask();
      said = { status: 200 };
    } catch (error) {
      said = { status: error.status ?? 0, text: String(error) };
    }
    console.log(JSON.stringify(said));
  }
})();
