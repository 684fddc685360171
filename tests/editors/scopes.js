// Prints the scopes that a TextMate grammar gives to each character of texts: reads JSON with the
// grammar's path and texts, writes for each text a list of [start, scopes] by lines.
const fs = require("fs");
const path = require("path");
const { loadWASM, OnigScanner, OnigString } = require("vscode-oniguruma");
const { Registry, INITIAL, parseRawGrammar } = require("vscode-textmate");

async function main() {
  const { grammar: file, texts } = JSON.parse(fs.readFileSync(0, "utf8"));
  const wasm = path.join(path.dirname(require.resolve("vscode-oniguruma")), "onig.wasm");
  await loadWASM(fs.readFileSync(wasm));
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new OnigScanner(patterns),
      createOnigString: (text) => new OnigString(text),
    }),
    loadGrammar: async () => parseRawGrammar(fs.readFileSync(file, "utf8"), file),
  });
  const grammar = await registry.loadGrammar("source.iris");
  const all = texts.map((text) => {
    let state = INITIAL;
    return text.split("\n").map((line) => {
      const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
      state = ruleStack;
      return tokens.map((token) => [token.startIndex, token.scopes.slice(1).join(" ")]);
    });
  });
  console.log(JSON.stringify(all));
}

main();
