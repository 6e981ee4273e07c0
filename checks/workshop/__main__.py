from bisection.start import start

start("workshop")
