"""Who looks at the pages: the login, the session in the cookie, the API in the visitor's name."""
