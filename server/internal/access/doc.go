// Package access says who may do what on a server: tokens with scopes, sessions of
// browsers, and the checks of a request's origin.
//
// A token is 256 random bits, of which a file has the SHA-256. A fast hash is right for
// them: slow ones, with salts, are for passwords, which can be guessed; nobody tries
// 2^256 tokens. What a token is compared with, and how long that takes, does not depend on
// the token, nor on whether there is one: each request costs one hash and a comparison in constant time with
// all tokens of the file.
//
// Without a file of tokens everybody may do everything, so such a server answers only what comes over
// the loopback interface, and of that only requests which a browser sends for a page of this server: its Host is
// a name of the loopback interface, so that no other site's name can be rebound to this address, and what
// changes something has this server's origin.
package access
