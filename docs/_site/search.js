// Browsers start no worker from file://, so the search runs in a frame of its own.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.frame = new Promise((ready) => {
        frame.onload = () => {
          const script = frame.contentDocument.createElement("script");
          script.src = new URL(url, location.href).href;
          script.onload = () => ready(frame.contentWindow);
          frame.contentWindow.postMessage = (data) =>
            this.dispatchEvent(new MessageEvent("message", { data }));
          frame.contentDocument.body.append(script);
        };
      });
      document.body.append(frame);
    }
    postMessage(data) {
      this.frame.then((frame) => frame.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}

// Words of every page tell no page from others, and a letter finds all words that begin with it.
const FUNCTION_WORDS = new Set(
  ("an and are at be but by can do does for from get have how if in into is it its me my not of on " +
    "or so than that the their then there these they this to use was what when where which who " +
    "why will with you your").split(" "),
);

function tellingWords(query) {
  const words = query.split(/\s+/).filter((word) => {
    const letters = word.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
    return letters.length > 1 && !FUNCTION_WORDS.has(letters);
  });
  return words.length && !query.includes('"') ? words.join(" ") : query;
}

const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...others) {
  const isQuery = typeof message?.data === "string";
  const sent = isQuery ? { ...message, data: tellingWords(message.data) } : message;
  return post.call(this, sent, ...others);
};
