module iclaustron.example

go 1.19
