from bisection.start import start

start("bisection")
