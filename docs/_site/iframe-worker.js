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
