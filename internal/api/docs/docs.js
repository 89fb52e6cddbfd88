"use strict";
// No Content-Security-Policy allows inline scripts here, so the page's own few lines are a file.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 2,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: false,
  validatorUrl: null, // by default it would send the description's address to somebody else's server
});
