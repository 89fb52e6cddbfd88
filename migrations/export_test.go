package migrations

// Classes are all tables', for the tests that hold them against the schema.
var Classes = classes
