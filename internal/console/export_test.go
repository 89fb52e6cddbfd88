package console

// SkipWords are the words for why an endpoint got no delivery.
var SkipWords = skipWords
