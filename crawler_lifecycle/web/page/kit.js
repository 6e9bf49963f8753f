export * from "/api.js";
export * from "/dom.js";
export * from "/live.js";
export * from "/words.js";
