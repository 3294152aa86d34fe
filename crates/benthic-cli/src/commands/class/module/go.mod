module class

go 1.24
